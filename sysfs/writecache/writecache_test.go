package writecache

import (
	"context"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/sysfs/sgio"
)

func TestParseView(t *testing.T) {
	for text, want := range map[string]string{
		"write back": On, "write back\n": On, "write back, no read (daft)": On,
		"write through": Off, "none": Off, "": "", "writeback": "", "On": "",
	} {
		got, ok := ParseView(text)
		assert.Equal(t, want, got, "%q", text)
		assert.Equal(t, want != "", ok, "%q", text)
	}
}

func TestWhatHasNoCacheIsNotTouched(t *testing.T) {
	d := Drive{Node: "/dev/loop0", Transport: Virtual, Open: func(string) (sgio.Device, error) {
		assert.Fail(t, "a command for a loop device")
		return nil, fs.ErrInvalid
	}}
	ctx := context.Background()
	s, err := d.State(ctx)
	require.NoError(t, err)
	assert.Empty(t, s.Level)
	assert.True(t, s.Absent)
	assert.Contains(t, s.Reason, "no write cache of its own")
	_, err = d.Set(ctx, Off)
	require.ErrorIs(t, err, ErrUnsupported)
	require.NoError(t, d.Flush(ctx))
	_, err = d.Set(ctx, "write back")
	assert.ErrorContains(t, err, "write back")

	d.Transport = "mmc"
	s, err = d.State(ctx)
	require.NoError(t, err)
	assert.False(t, s.Absent, "it may have one")
	assert.Contains(t, s.Reason, "no way known")
	_, err = d.Set(ctx, Off)
	require.ErrorIs(t, err, ErrUnsupported)
}

func TestDisagreementSaysWhere(t *testing.T) {
	attributes := map[string]string{"/c/cache_type": "write through\n", "/q/write_cache": "write back\n"}
	d := Drive{CacheType: "/c/cache_type", View: "/q/write_cache", Read: func(_ context.Context, p string) (string, error) {
		text, ok := attributes[p]
		if !ok {
			return "", fs.ErrNotExist
		}
		return text, nil
	}}
	ctx := context.Background()
	assert.Equal(t, "the drive says off, the kernel believes on (queue/write_cache: write back)", d.Disagreement(ctx, Off))
	assert.Equal(t, "the drive says on, the kernel believes off (cache_type: write through)", d.Disagreement(ctx, On))
	assert.Empty(t, d.Disagreement(ctx, ""), "an unknown state disagrees with nothing")
	delete(attributes, "/q/write_cache")
	assert.Empty(t, d.Disagreement(ctx, Off))
	assert.False(t, d.Overridden(ctx, Off))
	assert.True(t, d.Overridden(ctx, On))
}
