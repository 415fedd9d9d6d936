package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseShare(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		text  string
		want  share
		fails bool
	}{
		{text: dir + ":/data", want: share{Host: dir, Guest: "/data"}},
		{text: dir + ":/data/:rw", want: share{Host: dir, Guest: "/data", Write: true}},
		{text: dir + ":/data:ro", fails: true},
		{text: dir + ":data", fails: true},
		{text: dir, fails: true},
		{text: ":/data", fails: true},
		{text: filepath.Join(dir, "absent") + ":/data", fails: true},
	} {
		got, err := parseShare(c.text)
		assert.Equal(t, c.fails, err != nil, "%s: %v", c.text, err)
		assert.Equal(t, c.want, got)
	}
}

func TestParseAdd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	got, err := parseAdd(file + ":/etc/file")
	require.NoError(t, err)
	assert.Equal(t, addedFile{Host: file, Guest: "/etc/file"}, got)
	for _, wrong := range []string{file, file + ":etc", file + "x:/etc/file", ":/x"} {
		_, err := parseAdd(wrong)
		assert.Error(t, err, wrong)
	}
}

func TestKernelPackageFromApt(t *testing.T) {
	name, err := parseDepends([]byte("linux-image-amd64\n  Depends: linux-image-6.1.0-57-amd64\n  Suggests: x\n"))
	require.NoError(t, err)
	assert.Equal(t, "linux-image-6.1.0-57-amd64", name)
	_, err = parseDepends([]byte("linux-image-amd64\n  Depends: linux-image-amd64-meta\n"))
	assert.Error(t, err)
	assert.EqualValues(t, 70591024, downloadSize([]byte("'http://deb/linux-image.deb' linux-image.deb 70591024 SHA256:ab\n")))
	assert.Zero(t, downloadSize([]byte("what")))
}

func TestOwnEnvironment(t *testing.T) {
	assert.Equal(t, []string{"QDSWEEP_CHAOS=long"}, ownEnvironment([]string{"HOME=/root", "QDSWEEP_CHAOS=long", "XQDSWEEP_A=1"}))
}

func TestUsrMerged(t *testing.T) {
	for path, want := range map[string]string{"/bin/sh": "/usr/bin/sh", "/lib64/ld.so": "/usr/lib64/ld.so", "/usr/bin/x": "/usr/bin/x", "/libexec/x": "/libexec/x"} {
		assert.Equal(t, want, usrMerged(path))
	}
}

func TestDemoFolderIsReplacedOnlyWhenItIsOurs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	require.NoError(t, replaceDemoFolder(dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "results.csv"), nil, 0o644))
	require.NoError(t, replaceDemoFolder(dir))
	assert.NoFileExists(t, filepath.Join(dir, "results.csv"))

	somebodys := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(somebodys, "thesis"), nil, 0o644))
	require.ErrorContains(t, replaceDemoFolder(somebodys), "not an earlier demo's")
	assert.FileExists(t, filepath.Join(somebodys, "thesis"))
}

func TestProgramFiles(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh -e\ntrue\n"), 0o755))
	files, err := programFiles(script)
	require.NoError(t, err)
	assert.Equal(t, script, files[0])
	assert.Equal(t, "/bin/sh", files[1])

	self, err := os.Executable()
	require.NoError(t, err)
	files, err = programFiles(self)
	require.NoError(t, err)
	assert.Contains(t, files, self)
}

func TestCacheFolders(t *testing.T) {
	t.Setenv("QDLAB_CACHE", t.TempDir())
	l, err := openLab(os.Stderr)
	require.NoError(t, err)
	left := filepath.Join(l.cache, "runs", "run-left")
	require.NoError(t, os.Mkdir(left, 0o755))
	release, err := l.lock()
	require.NoError(t, err)
	defer release()
	dir, remove, err := l.runFolder()
	require.NoError(t, err)
	assert.NoDirExists(t, left, "what a killed process left is removed")
	remove()
	assert.NoDirExists(t, dir)
}
