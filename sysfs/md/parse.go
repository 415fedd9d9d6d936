package md

import (
	"encoding/json"
	"fmt"
	"strings"
)

// parseExport reads what mdadm --export writes: KEY=value lines. A line without "=" or without a key says nothing.
func parseExport(text string) map[string]string {
	values := map[string]string{}
	for _, line := range strings.Split(text, "\n") {
		key, value, ok := strings.Cut(line, "=")
		if ok && key != "" {
			values[key] = strings.TrimSpace(value)
		}
	}
	return values
}

// signature is one thing that wipefs knows on a device.
type signature struct {
	Offset string `json:"offset"` // "0x438"
	Type   string `json:"type"`
	UUID   string `json:"uuid"`
}

// parseSignatures reads what wipefs --json lists. blkid would say "ambivalent" of two and nothing more; wipefs lists them all.
func parseSignatures(text string) ([]signature, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var list struct {
		Signatures []signature `json:"signatures"`
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("read what wipefs --json says: %w", err)
	}
	return list.Signatures, nil
}
