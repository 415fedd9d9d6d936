package systest

import (
	"os"
	"slices"

	"github.com/stretchr/testify/require"
)

// Stop takes an array or a mapping away, as mdadm --stop does. Its members stay.
func (m *Machine) Stop(name string) {
	m.t.Helper()
	a := m.array(name)
	require.NotNil(m.t, a, "no array %s", name)
	number := m.Get(a.dir + "/dev")
	for _, member := range a.members {
		_ = os.Remove(m.path(m.blockDir(member) + "/holders/" + name))
	}
	for _, at := range []string{"/sys/block/" + name, "/sys/class/block/" + name, "/sys/dev/block/" + number, "/dev/" + name} {
		_ = os.Remove(m.path(at))
	}
	require.NoError(m.t, os.RemoveAll(m.path(a.dir)))
	m.arrays = slices.DeleteFunc(m.arrays, func(have *array) bool { return have == a })
}
