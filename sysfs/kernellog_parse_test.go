package sysfs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestParseKernelLog(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"nothing":               {"", nil},
		"a message":             {"6,339,5140900,-;NET: Registered protocol family 10\n", []string{"NET: Registered protocol family 10"}},
		"a device's":            {"3,1,2,-;sd 2:0:0:0: [sda] x\n SUBSYSTEM=scsi\n DEVICE=+scsi:2:0:0:0\n", []string{"sd 2:0:0:0: [sda] x"}},
		"with a caller":         {"4,1,2,-,caller=T17;ata3: EH complete\n", []string{"ata3: EH complete"}},
		"a piece of a line":     {"4,1,2,c;ata3: \n", []string{"ata3: "}},
		"a program's":           {"12,160,424069,-;user message\n", nil},
		"systemd's":             {"30,160,424069,-;systemd[1]: ata3: NCQ disabled due to excessive errors\n", nil},
		"an empty one":          {"6,1,2,-;\n", nil},
		"no head":               {"ata3: EH complete\n", nil},
		"a head of nonsense":    {"x,1,2,-;ata3\n-6,1,2,-;ata3\n6;ata3\n;ata3\n99999999999,1,2,-;ata3\n", nil},
		"a continuation only":   {" DEVICE=+scsi:2:0:0:0;6,1,2,-;x\n", nil},
		"what it holds is kept": {"6,1,2,-;a;b,c \\x0a\n", []string{`a;b,c \x0a`}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, parseKernelLog(c.text)) })
	}
}

func FuzzParseKernelLog(f *testing.F) {
	f.Add("6,339,5140900,-;NET: Registered protocol family 10\n SUBSYSTEM=net\n")
	f.Add("12,160,424069,-;user\n6,1,2,c,caller=T1;x\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, message := range parseKernelLog(text) {
			if message == "" || strings.Contains(message, "\n") || !strings.Contains(text, ";"+message) {
				t.Errorf("%q gives %q", text, message)
			}
			kindOfMessage(message)
		}
	})
}
