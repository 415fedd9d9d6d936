package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fakeModules is a kernel with the modules of info; their files are empty and never read.
func fakeModules(info map[string]moduleInfo, builtin ...string) *kernelModules {
	m := &kernelModules{dir: "fake", files: map[string]string{}, builtin: map[string]bool{}, info: info}
	for name := range info {
		m.files[name] = "kernel/" + name + ".ko"
	}
	for _, name := range builtin {
		m.builtin[name] = true
	}
	return m
}

func TestModuleOrder(t *testing.T) {
	m := fakeModules(map[string]moduleInfo{
		"ahci":     {Depends: []string{"libahci", "libata"}},
		"libahci":  {Depends: []string{"libata"}},
		"libata":   {Depends: []string{"scsi_mod", "virtio"}},
		"scsi_mod": {},
		"raid456":  {Depends: []string{"md_mod"}, Before: []string{"crc32c", "absent"}},
		"md_mod":   {},
		"crc32c":   {},
		"broken":   {Depends: []string{"nowhere"}},
	}, "virtio")
	for _, c := range []struct {
		names, order string
		fails        bool
	}{
		{names: "ahci", order: "scsi_mod libata libahci ahci"},
		{names: "libata ahci", order: "scsi_mod libata libahci ahci"},
		{names: "raid456", order: "crc32c md_mod raid456"},
		{names: "scsi-mod scsi_mod", order: "scsi_mod"},
		{names: "virtio", order: ""},
		{names: "broken", fails: true},
		{names: "nowhere", fails: true},
	} {
		t.Run(c.names, func(t *testing.T) {
			order, err := m.Order(strings.Fields(c.names)...)
			if c.fails {
				require.ErrorIs(t, err, errNoModule)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.order, strings.Join(order, " "))
		})
	}
}

func TestModuleTables(t *testing.T) {
	m := fakeModules(map[string]moduleInfo{
		"raid456": {Depends: []string{"md_mod", "xor"}, Aliases: []string{"md-raid5", "md-level-5"}},
		"md_mod":  {}, "xor": {},
	})
	dep, alias, err := m.Tables([]string{"md_mod", "raid456"})
	require.NoError(t, err)
	assert.Equal(t, "kernel/md_mod.ko:\nkernel/raid456.ko: kernel/xor.ko kernel/md_mod.ko\n", string(dep))
	assert.Equal(t, "alias md-level-5 raid456\nalias md-raid5 raid456\n", string(alias))
}

func TestModuleName(t *testing.T) {
	for file, name := range map[string]string{
		"kernel/drivers/md/dm-mod.ko": "dm_mod", "a/ahci.ko.xz": "ahci", "a/sd_mod.ko.zst": "sd_mod", "x.ko.gz": "x",
		"modules.dep": "", "ahci.ko.txt": "", ".": "",
	} {
		assert.Equal(t, name, moduleName(file), file)
	}
}

func TestOpenModules(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "kernel/drivers"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kernel/drivers/dm-mod.ko"), []byte("not an ELF file"), 0o644))
	_, err := openModules(dir)
	require.ErrorIs(t, err, os.ErrNotExist, "modules.builtin is missing")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "modules.builtin"), []byte("kernel/drivers/virtio/virtio-ring.ko\n"), 0o644))
	m, err := openModules(dir)
	require.NoError(t, err)
	order, err := m.Order("virtio_ring")
	require.NoError(t, err)
	assert.Empty(t, order)
	_, err = m.Order("dm_mod")
	require.ErrorContains(t, err, "dm-mod.ko")
}

func TestParseModinfo(t *testing.T) {
	info := parseModinfo([]byte("license=GPL\x00alias=md-level-5\x00\x00depends=md-mod,xor\x00softdep=pre: crc32c  sha256 post: later\x00depends=\x00retpoline=Y\x00noequals\x00"))
	assert.Equal(t, moduleInfo{Depends: []string{"md_mod", "xor"}, Before: []string{"crc32c", "sha256"}, Aliases: []string{"md-level-5"}}, info)
}

func FuzzParseModinfo(f *testing.F) {
	f.Add([]byte("depends=a,b\x00softdep=pre: c\x00alias=*\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, name := range parseModinfo(data).Depends {
			assert.NotEmpty(t, name)
		}
	})
}
