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
	if level == "" || d.Transport == "nvme" { // there "write back" means that a cache exists
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

// Belief is what the kernel takes the drive's cache for, in words: "on", "off"; where its two places differ
// both, "on (cache_type), off (queue/write_cache)"; of NVMe, which it never asks for more, "there is one" or
// "there is none". "" where it cannot be read.
func (d Drive) Belief(ctx context.Context) string {
	var levels, texts []string
	for _, at := range []string{d.CacheType, d.View} {
		if at == "" {
			continue
		}
		text, err := d.Read(ctx, at)
		if err != nil {
			continue
		}
		if level, ok := ParseView(text); ok {
			levels, texts = append(levels, level), append(texts, fmt.Sprintf("%s (%s)", level, name(at)))
		}
	}
	switch {
	case len(levels) == 0:
		return ""
	case d.Transport == "nvme":
		return map[string]string{On: "there is one", Off: "there is none"}[levels[0]]
	case len(levels) == 2 && levels[0] != levels[1]:
		return strings.Join(texts, ", ")
	}
	return levels[0]
}

func name(attribute string) string {
	if base := path.Base(attribute); base != "write_cache" {
		return base
	}
	return "queue/write_cache"
}
