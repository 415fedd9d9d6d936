package systest

import (
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Write is one write(2) of value and a newline to an attribute, as sysfs.WithWriter wants it.
func (m *Machine) Write(logical, value string) error {
	key := m.key(logical)
	m.mu.Lock()
	hang, watch := m.hang[key], m.watch
	m.mu.Unlock()
	for _, f := range watch {
		if err := f(logical, value); err != nil {
			m.log(logical, value, err)
			return err
		}
	}
	if hang != nil {
		m.log(logical, value, nil)
		<-hang
		return unix.EIO
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	err := error(nil)
	if errno := m.fail[key]; errno != 0 {
		err = errno
	} else {
		err = m.store(key, value)
	}
	m.writes = append(m.writes, Write{logical, value, err})
	return err
}

func (m *Machine) log(path, value string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes = append(m.writes, Write{path, value, err})
}

// store finds the attribute's store function.
func (m *Machine) store(key, value string) error {
	info, err := os.Stat(m.path(key))
	switch {
	case err != nil:
		return unix.ENOENT
	case info.IsDir():
		return unix.EISDIR
	case info.Mode()&0o200 == 0:
		return unix.EACCES
	}
	for _, d := range m.disks {
		if d.pulled {
			continue
		}
		switch {
		case path.Dir(key) == d.dir+"/queue":
			return m.writeQueue(d, path.Base(key), value)
		case path.Dir(key) == d.dir+"/queue/iosched":
			if _, err := parseUnsigned(strings.TrimPrefix(value, "-")); err != nil {
				return unix.EINVAL
			}
		case key == d.device+"/queue_depth":
			return m.writeDepth(d, value)
		case key == d.device+"/rescan":
			m.revalidate(d)
			return nil
		case key == d.cacheType:
			return m.writeCacheType(d, value)
		case d.Transport == "virtio" && key == d.dir+"/cache_type":
			return m.writeHostCache(d, value)
		}
	}
	for _, a := range m.arrays {
		switch path.Dir(key) {
		case a.dir + "/queue":
			return m.writeStackedQueue(a, path.Base(key), value)
		case a.dir + "/md":
			return m.writeArray(a, path.Base(key), value)
		}
	}
	m.put(key, value+"\n", 0o644)
	return nil
}
