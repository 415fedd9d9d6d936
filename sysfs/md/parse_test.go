package md

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// As mdadm 4.2 wrote them in a guest.
const (
	examined = "MD_LEVEL=raid5\nMD_DEVICES=4\nMD_NAME=any:qdsweep-aaaaaaaa\nMD_ARRAY_SIZE=802.16MB\nMD_UUID=aaaaaaaa:11114222:8333bbbb:bbbbbbbb\nMD_UPDATE_TIME=1796052464\nMD_DEV_UUID=56bdf2ee:724f5214:912d3f9d:ed84d234\nMD_EVENTS=0\n"
	detailed = "MD_DEVICES=1\nMD_METADATA=1.2\nMD_UUID=aaaaaaaa:11114222:8333bbbb:bbbbbbbb\nMD_DEVNAME=qdsweep-aaaaaaaa\nMD_NAME=any:qdsweep-aaaaaaaa\nMD_DEVICE_dev_sdd_ROLE=spare\nMD_DEVICE_dev_sdd_DEV=/dev/sdd\n"
	wiped    = "{\n   \"signatures\": [\n      {\n         \"device\": \"md126\",\n         \"offset\": \"0x438\",\n         \"type\": \"ext4\",\n         \"uuid\": \"aaaaaaaa-1111-4222-8333-bbbbbbbbbbbb\",\n         \"label\": null\n      },{\n         \"device\": \"sdd\",\n         \"offset\": \"0x1fe\",\n         \"type\": \"PMBR\",\n         \"uuid\": null,\n         \"label\": null\n      }\n   ]\n}\n"
)

func TestParseExport(t *testing.T) {
	for _, text := range []string{examined, detailed} {
		values := parseExport(text)
		assert.True(t, sameUUID("aaaaaaaa-1111-4222-8333-bbbbbbbbbbbb", values["MD_UUID"]))
		assert.Equal(t, "any:qdsweep-aaaaaaaa", values["MD_NAME"])
	}
	assert.Equal(t, "/dev/sdd", parseExport(detailed)["MD_DEVICE_dev_sdd_DEV"])
	assert.Empty(t, parseExport("mdadm: no such thing\n=x\n"))
	assert.Equal(t, "a=b", parseExport("X=a=b")["X"])
}

func TestParseSignatures(t *testing.T) {
	all, err := parseSignatures(wiped)
	assert.NoError(t, err)
	assert.Equal(t, []signature{{"0x438", "ext4", "aaaaaaaa-1111-4222-8333-bbbbbbbbbbbb"}, {"0x1fe", "PMBR", ""}}, all)
	for _, none := range []string{"", "\n", "{\n   \"signatures\": [\n\n   ]\n}\n"} {
		all, err := parseSignatures(none)
		assert.NoError(t, err)
		assert.Empty(t, all)
	}
	_, err = parseSignatures("wipefs: error")
	assert.Error(t, err)
}

func FuzzParseExport(f *testing.F) {
	for _, seed := range []string{examined, detailed, wiped, "", "=", "MD_UUID=\nMD_UUID=x\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for key, value := range parseExport(text) {
			if key == "" || strings.ContainsAny(key+value, "\n") || !strings.Contains(text, key+"=") {
				t.Errorf("%q gave %q=%q", text, key, value)
			}
			if sameUUID(value, "") || plainUUID(value) != "" && !sameUUID(value, plainUUID(value)) {
				t.Errorf("%q is not handled as the UUID that it is", value)
			}
		}
		_, _ = parseSignatures(text)
	})
}
