// Package ioengine issues I/O: one file an engine, behind one small interface. It knows descriptors,
// offsets and buffers; it must not know workloads, clocks or statistics.
package ioengine

// Names are the engines of this version, without auto.
func Names() []string { return []string{"psync", "libaio", "io_uring", "null"} }
