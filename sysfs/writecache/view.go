package writecache

import (
	"context"
	"fmt"
	"path"
	"strings"
)

// viewAgrees says whether sd believes what the drive says. A disk without cache_type has no view.
func (d Drive) viewAgrees(ctx context.Context, level string) bool {
	if d.CacheType == "" {
		return true
	}
	text, err := d.Read(ctx, d.CacheType)
	if err != nil {
		return false
	}
	view, ok := ParseView(text)
	return ok && view == level
}

// Overridden says whether sd's cache_type disagrees with the drive's state, as after somebody wrote
// "temporary …" to it. sd keeps such an override through every later change, and does not show that it
// is one.
func (d Drive) Overridden(ctx context.Context, level string) bool {
	return level != "" && d.CacheType != "" && !d.viewAgrees(ctx, level)
}

// RestoreView puts an overridden cache_type back as an override: without the prefix the kernel would
// switch the drive, and on a drive that can save the page switch it for ever.
func (d Drive) RestoreView(ctx context.Context, text string) error {
	return d.Write(ctx, d.CacheType, "temporary "+text)
}

// Disagreement says in words where the kernel's view is not the drive's state, "" for nowhere.
func (d Drive) Disagreement(ctx context.Context, level string) string {
	if level == "" {
		return ""
	}
	var wrong []string
	believed := ""
	for _, at := range []string{d.CacheType, d.View} {
		if at == "" {
			continue
		}
		text, err := d.Read(ctx, at)
		if err != nil {
			continue
		}
		if view, ok := ParseView(text); ok && view != level {
			believed = view
			wrong = append(wrong, fmt.Sprintf("%s: %s", name(at), strings.TrimSpace(text)))
		}
	}
	if len(wrong) == 0 {
		return ""
	}
	return fmt.Sprintf("the drive says %s, the kernel believes %s (%s)", level, believed, strings.Join(wrong, "; "))
}

func name(attribute string) string {
	if base := path.Base(attribute); base != "write_cache" {
		return base
	}
	return "queue/write_cache"
}
