package sysfs

import (
	"sync"

	"qdsweep/sysfs/writecache"
)

// bridges remembers what USB bridges said about the write cache behind them. One that said nothing took
// its 10 s for it, may keep the command still, and is not asked again by this process, until a change
// of the cache has gone well.
type bridges struct {
	mu   sync.Mutex
	said map[string]writecache.State
}

func bridgeKey(d Device) string { return d.Path + " " + string(d.Identity) }

// unknown is the answer of a bridge that has been asked, and did not say which state the cache is in.
func (b *bridges) unknown(d Device) (writecache.State, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, asked := b.said[bridgeKey(d)]
	return s, asked && s.Level == ""
}

// known says whether a bridge has told the state: then it takes commands.
func (b *bridges) known(d Device) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.said[bridgeKey(d)].Level != ""
}

func (b *bridges) remember(d Device, s writecache.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.said == nil {
		b.said = map[string]writecache.State{}
	}
	b.said[bridgeKey(d)] = s
}
