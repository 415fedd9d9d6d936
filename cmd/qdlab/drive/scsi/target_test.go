package scsi

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qdsweep/cmd/qdlab/drive"
)

func plain(t *testing.T, change ...func(*drive.Model)) drive.Model {
	t.Helper()
	m, err := drive.FindModel("ncq-2007")
	require.NoError(t, err)
	m.Product = "PLAIN"
	for _, f := range change {
		f(&m)
	}
	return m
}

// bench is a target that has told its unit attention, with a clock.
type bench struct {
	t *testing.T
	*Target
	now time.Duration
}

func newBench(t *testing.T, identity Identity, change ...func(*drive.Model)) *bench {
	if identity.Serial == "" {
		identity.Serial = "SERIAL-1"
	}
	b := &bench{t: t, Target: New(plain(t, change...), drive.NewPlatters(), identity, 1)}
	require.Equal(t, "700006000000000a00000000290000000000", hex.EncodeToString(b.do("000000000000", nil).Sense), "power on occurred")
	require.Equal(t, Good, b.do("000000000000", nil).Status)
	return b
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	require.NoError(t, err)
	return b
}

// do submits a command and waits for it; of others it waits for none.
func (b *bench) do(cdb string, out []byte) *Task {
	b.t.Helper()
	task := &Task{CDB: unhex(b.t, cdb), Out: out}
	b.Submit(b.now, task)
	for {
		next := b.Next()
		require.NotEqual(b.t, drive.Never, next, "it does not come back")
		b.now = max(b.now, next)
		for _, done := range b.Run(b.now) {
			if done == task {
				return task
			}
		}
	}
}

// good is do of what must succeed.
func (b *bench) good(cdb string, out []byte) string {
	b.t.Helper()
	task := b.do(cdb, out)
	require.Equal(b.t, Good, task.Status, "%s: %x", cdb, task.Sense)
	return hex.EncodeToString(task.In)
}

// refused is do of what must not; the answer is key/code/qualifier.
func (b *bench) refused(cdb string, out []byte) string {
	b.t.Helper()
	task := b.do(cdb, out)
	require.Equal(b.t, CheckCondition, task.Status, cdb)
	require.Nil(b.t, task.In)
	return hex.EncodeToString([]byte{task.Sense[2], task.Sense[12], task.Sense[13]})
}

// cycle takes the power away and gives it back; nothing waits.
func (b *bench) cycle() {
	b.t.Helper()
	dropped, err := b.PowerCycle(b.now)
	require.NoError(b.t, err)
	require.Empty(b.t, dropped)
}

func TestInquiry(t *testing.T) {
	b := newBench(t, Identity{})
	assert.Equal(t, "000006021f000002"+hex.EncodeToString([]byte("QDLAB   PLAIN           1   ")), b.good("12000000ff00", nil))
	assert.Equal(t, "000006021f", b.good("120000000500", nil), "no more than is allowed")
	for _, c := range []struct{ page, want string }{
		{"00", "00000005008083b0b1"},
		{"80", "00800008" + hex.EncodeToString([]byte("SERIAL-1"))},
		{"b1", "00b1003c1c20" + strings.Repeat("00", 58)}, // 7200
		{"b0", "00b0003c" + strings.Repeat("00", 60)},
	} {
		assert.Equal(t, c.want, b.good("1201"+c.page+"00ff00", nil))
	}
	name := b.good("12018300ff00", nil)
	assert.Equal(t, "0083000c010300085001405", name[:23])
	assert.NotEqual(t, name, newBench(t, Identity{Serial: "SERIAL-2"}).good("12018300ff00", nil))
	assert.Equal(t, name, newBench(t, Identity{Serial: "SERIAL-1"}).good("12018300ff00", nil), "two drives of one serial are one name")
	assert.Equal(t, "052400", b.refused("1201b200ff00", nil))
	assert.Equal(t, "052400", b.refused("120080 00ff00", nil), "a page without EVPD")

	without := newBench(t, Identity{}, func(m *drive.Model) { m.Quirks.NoSerial = true })
	assert.Equal(t, "0000000300b0b1", without.good("12010000ff00", nil))
	assert.Equal(t, "052400", without.refused("12018000ff00", nil))
	assert.Equal(t, "052400", without.refused("12018300ff00", nil))

	limited := newBench(t, Identity{}, func(m *drive.Model) { m.Interface.LargestKB = 64 })
	assert.Equal(t, "00b0003c00000000", limited.good("1201b000ff00", nil)[:16])
	assert.Equal(t, "00000080", limited.good("1201b000ff00", nil)[16:24], "in blocks")
}

func TestCapacityAndUnits(t *testing.T) {
	b := newBench(t, Identity{})
	assert.Equal(t, "0007ffff00000200", b.good("25000000000000000000", nil), "256 MiB")
	assert.Equal(t, "000000000007ffff00000200"+strings.Repeat("00", 20), b.good("9e100000000000000000000000200000", nil))
	assert.Equal(t, "052400", b.refused("9e120000000000000000000000200000", nil))
	assert.Equal(t, "00000008000000000000000000000000", b.good("a00000000000000000ff0000", nil))
	assert.Equal(t, "70000000000000", b.good("030000001200", nil)[:14], "no sense")
	b.good("1d0000000000", nil)
	b.good("1b0000000100", nil)
}

func TestUnitAttention(t *testing.T) {
	b := &bench{t: t, Target: New(plain(t), drive.NewPlatters(), Identity{Serial: "S"}, 1)}
	b.good("12000000ff00", nil)
	b.good("a00000000000000000ff0000", nil)
	assert.Equal(t, "062900", b.refused("28000000000000000100", nil))
	b.good("28000000000000000100", nil)
	b.cycle()
	assert.Equal(t, "700006", b.good("030000001200", nil)[:6], "REQUEST SENSE takes it, too")
	b.good("000000000000", nil)
}

func TestUnknownAndShortCommands(t *testing.T) {
	b := newBench(t, Identity{})
	for _, cdb := range []string{
		"85062000000000000000000000000000", // ATA PASS-THROUGH(16): not an ATA device
		"a1000000000000000000 0000", "42000000000000001800", "93000000000000000000000000080000", "5e000000000000000800", "ff0000000000",
	} {
		assert.Equal(t, "052000", b.refused(cdb, nil), cdb)
	}
	assert.Equal(t, "052400", b.refused("280000000000", nil), "half a CDB")
	assert.Equal(t, "052000", b.refused("", nil))
}

func TestReadAndWrite(t *testing.T) {
	b := newBench(t, Identity{})
	data := bytes.Repeat([]byte{1}, 1024)
	writes := []struct{ write, read string }{
		{"0a0003e80200", "080003e80200"},
		{"2a00000007d000000200", "2800000007d000000200"},
		{"2a0800000fa000000200", "280800000fa000000200"}, // FUA
		{"8a000000000000000bb8000000020000", "88000000000000000bb8000000020000"},
	}
	for i, c := range writes {
		for j := range data {
			data[j] = byte(i + 1)
		}
		b.good(c.write, append([]byte(nil), data...))
		assert.Equal(t, hex.EncodeToString(data), b.good(c.read, nil), c.read)
	}
	assert.Equal(t, strings.Repeat("01", 1024), b.good("080003e80200", nil), "still there")
	assert.Len(t, b.good("080003e80000", nil), 2*256*512, "0 is 256 in the short form")
	assert.Empty(t, b.good("28000000000000000000", nil), "and nothing in the long one")
	for _, c := range []struct{ cdb, want string }{
		{"2800000800000 0000100", "052100"}, {"28000007ffff00000200", "052100"}, {"88008000000000000000000000010000", "052100"},
		{"88008000000000000000800000000000", "052100"}, {"28200000000000000100", "052400"}, {"2a200000000000000100", "052400"},
	} {
		assert.Equal(t, c.want, b.refused(c.cdb, make([]byte, 512)), c.cdb)
	}
	assert.Equal(t, "052400", b.refused("2a000000000000000200", make([]byte, 512)), "less data than it says")
}

func TestLargestTransfer(t *testing.T) {
	for _, change := range []func(*drive.Model){
		func(m *drive.Model) { m.Interface.LargestKB = 128 },
		func(m *drive.Model) { m.Quirks.LargestTransferKB = 128 },
	} {
		b := newBench(t, Identity{}, change)
		b.good("28000000000000010000", nil)
		assert.Equal(t, "052400", b.refused("28000000000000010100", nil))
		assert.Equal(t, "052400", b.refused("2a000000000000010100", make([]byte, 257*512)))
	}
}

func TestBadSectors(t *testing.T) {
	b := newBench(t, Identity{}, func(m *drive.Model) {
		m.Quirks.BadSectors = []drive.BadSector{{LBA: 0x1234}, {LBA: 0x2000, Write: true}}
	})
	task := b.do("28000000123000000800", nil)
	assert.Equal(t, "f0000300001234", hex.EncodeToString(task.Sense)[:14], "medium error, and where")
	assert.Equal(t, "031100", b.refused("28000000123000000800", nil))
	b.good("2a000000200000000100", make([]byte, 512))
	assert.Equal(t, "030c00", b.refused("35000000000000000000", nil), "it was acknowledged, and is lost")
	b.good("35000000000000000000", nil)
	assert.Equal(t, "030c00", b.refused("2a080000200000000100", make([]byte, 512)), "FUA says it at once")
}

// depth submits n reads at once and counts their statuses.
func (b *bench) depth(n int) map[Status]int {
	tasks := make([]*Task, n)
	for i := range tasks {
		cdb := unhex(b.t, "28000000000000000800")
		binary.BigEndian.PutUint32(cdb[2:], uint32(i)*5000)
		tasks[i] = &Task{CDB: cdb}
		b.Submit(b.now, tasks[i])
	}
	for b.Outstanding() > 0 {
		b.now = max(b.now, b.Next())
		b.Run(b.now)
	}
	count := map[Status]int{}
	for _, task := range tasks {
		count[task.Status]++
	}
	return count
}

func TestHowManyCommandsItTakes(t *testing.T) {
	for _, c := range []struct {
		quirks drive.Quirks
		want   map[Status]int
	}{
		{drive.Quirks{}, map[Status]int{Good: 32, TaskSetFull: 8}},
		{drive.Quirks{QueueFullOver: 5}, map[Status]int{Good: 5, TaskSetFull: 35}},
		{drive.Quirks{QueueFullOver: 100}, map[Status]int{Good: 32, TaskSetFull: 8}},
		{drive.Quirks{BusyOver: 1}, map[Status]int{Good: 1, Busy: 39}},
	} {
		b := newBench(t, Identity{}, func(m *drive.Model) { m.Quirks = c.quirks })
		assert.Equal(t, c.want, b.depth(40), "%v", c.quirks)
		b.good("28000000000000000800", nil)
	}
	full := newBench(t, Identity{})
	for range 32 {
		full.Submit(full.now, &Task{CDB: unhex(t, "28000000000000000800")})
	}
	full.good("12000000ff00", nil)
	full.good("1a0008001400", nil)
}

func TestPowerCycleWithTasksUnderWay(t *testing.T) {
	b := newBench(t, Identity{})
	for i := range 3 {
		b.Submit(b.now, &Task{CDB: unhex(t, "28000000000000000800"), ID: uint16(i)})
	}
	dropped, err := b.PowerCycle(b.now + time.Millisecond)
	require.NoError(t, err)
	require.Len(t, dropped, 3)
	for i, task := range dropped {
		assert.Equal(t, uint16(i), task.ID)
		assert.Equal(t, CheckCondition, task.Status)
		assert.Equal(t, "70000600000000", hex.EncodeToString(task.Sense[:7]))
	}
	assert.Zero(t, b.Outstanding())
	assert.Equal(t, "062900", b.refused("000000000000", nil))
}

func TestTasksThatHang(t *testing.T) {
	b := newBench(t, Identity{}, func(m *drive.Model) { m.Quirks.HangAt = []uint64{1000} })
	hangs := &Task{CDB: unhex(t, "280000 0003e800000100")}
	b.Submit(b.now, hangs)
	b.good("28000000000000000800", nil)
	assert.Equal(t, 1, b.Outstanding())
	assert.Equal(t, []*Task{hangs}, b.Release(b.now))
	assert.Equal(t, byte(0x0b), hangs.Sense[2])
	assert.Zero(t, b.Outstanding())
}

const (
	sense6  = "1a080800ff00"          // MODE SENSE(6), DBD, caching page, current values
	sense10 = "5a080800000000 00ff00" // MODE SENSE(10)
	select6 = "15100000 1800"
	saved6  = "15110000 1800" // SP
)

// page is a parameter list of MODE SELECT(6) with the caching page.
func page(wce bool) []byte {
	list := make([]byte, 24)
	list[4], list[5] = 0x08, 18
	if wce {
		list[6] = 0x04
	}
	return list
}

func (b *bench) wce() (on bool) {
	data := unhex(b.t, b.good(sense6, nil))
	require.Len(b.t, data, 24)
	return data[6]&4 != 0
}

func TestModeSense(t *testing.T) {
	zeros := strings.Repeat("00", 17)
	b := newBench(t, Identity{})
	assert.Equal(t, "17001000"+"081204"+zeros, b.good(sense6, nil))
	assert.Equal(t, "001a001000000000"+"081204"+zeros, b.good(sense10, nil))
	assert.Equal(t, "1f001008"+"0008000000000200"+"081204"+zeros, b.good("1a000800ff00", nil), "with a block descriptor")
	assert.Equal(t, "17001000"+"081204"+zeros, b.good("1a083f00ff00", nil), "all pages")
	assert.Equal(t, "17001000", b.good("1a0808000400", nil), "no more than is allowed")
	assert.Equal(t, "17001000"+"081204"+zeros, b.good("1a084800ff00", nil), "changeable")
	assert.Equal(t, "17001000"+"081204"+zeros, b.good("1a088800ff00", nil), "default")
	assert.Equal(t, "053900", b.refused("1a08c800ff00", nil), "nothing is saved")
	assert.Equal(t, "052400", b.refused("1a080a00ff00", nil), "no control page")
	assert.Equal(t, "052400", b.refused("1a080801ff00", nil), "no subpage")
}

func TestModeSelect(t *testing.T) {
	b := newBench(t, Identity{})
	b.good(select6, page(false))
	assert.False(t, b.wce())
	assert.False(t, b.WriteCache())
	assert.Equal(t, "17001000081204", b.good("1a088800ff00", nil)[:14], "the default stays")
	b.good("55100000000000001c00", append(make([]byte, 4), page(true)...))
	assert.True(t, b.wce())
	b.good("151000000000", nil) // no list
	b.good("151000000400", make([]byte, 4))
	assert.True(t, b.wce())
	withDescriptor := append([]byte{0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 2, 0}, page(false)[4:]...)
	b.good("151000002000", withDescriptor)
	assert.False(t, b.wce())

	other := page(true)
	other[6] |= 0x01 // RCD is not changeable
	wrongPage := page(true)
	wrongPage[4] = 0x0a
	for _, c := range []struct {
		cdb  string
		list []byte
		want string
	}{
		{saved6, page(true), "052400"}, // not savable
		{"150000001800", page(true), "052400"},
		{select6, other, "052600"},
		{select6, wrongPage, "052600"},
		{"151000001700", page(true), "051a00"},
		{"151000000300", page(true), "051a00"},
		{select6, page(true)[:20], "051a00"},
	} {
		assert.Equal(t, c.want, b.refused(c.cdb, c.list))
		assert.False(t, b.wce(), "nothing has changed")
	}
	none := newBench(t, Identity{}, func(m *drive.Model) { m.Write = drive.WriteCache{} })
	assert.Equal(t, "052600", none.refused(select6, page(true)), "no cache to switch on")
}

// What the cache holds when it is switched off is on the media when MODE SELECT comes back.
func TestSwitchingOffWaitsForTheMedia(t *testing.T) {
	media := drive.NewPlatters()
	b := &bench{t: t, Target: New(plain(t), media, Identity{Serial: "S"}, 1)}
	b.do("000000000000", nil)
	began := b.now
	for i := range 8 {
		cdb := unhex(t, "2a000000000000000100")
		cdb[3] = byte(i)
		b.good(hex.EncodeToString(cdb), bytes.Repeat([]byte{byte(i + 1)}, 512))
	}
	require.Less(t, b.now-began, 5*time.Millisecond, "acknowledged early")
	b.good(select6, page(false))
	require.Greater(t, b.now-began, 20*time.Millisecond)
	b.cycle()
	for i := range int64(8) {
		got := make([]byte, 1)
		_, err := media.ReadAt(got, i<<16*512)
		require.NoError(t, err)
		assert.Equal(t, byte(i+1), got[0])
	}
}

func TestModeSelectLies(t *testing.T) {
	liar := newBench(t, Identity{}, func(m *drive.Model) { m.Quirks.ModeSelect, m.Caching.Savable = drive.Ignored, true })
	liar.good(select6, page(false))
	assert.True(t, liar.wce())
	liar.good(saved6, page(false))
	liar.cycle()
	assert.Equal(t, "062900", liar.refused("000000000000", nil))
	assert.True(t, liar.wce())
	nonsense := page(true)
	nonsense[6] = 0x01
	assert.Equal(t, "052600", liar.refused(select6, nonsense), "it still knows nonsense")

	refuses := newBench(t, Identity{}, func(m *drive.Model) { m.Quirks.ModeSelect = drive.Refused })
	for _, on := range []bool{false, true} {
		assert.Equal(t, "052000", refuses.refused(select6, page(on)), "even the value it has")
	}
	assert.True(t, refuses.wce())
}

func TestSavedValues(t *testing.T) {
	var kept []bool
	identity := Identity{Serial: "S", Save: func(on bool) error { kept = append(kept, on); return nil }}
	b := newBench(t, identity, func(m *drive.Model) { m.Caching.Savable = true })
	head := func(control string) string { return b.good("1a08"+control+"00ff00", nil)[8:14] }
	cycle := func() {
		b.cycle()
		assert.Equal(t, "062900", b.refused("000000000000", nil))
	}
	assert.Equal(t, "881204", head("c8"), "PS, and as it comes")
	b.good(select6, page(false))
	assert.Equal(t, []string{"881200", "881204"}, []string{head("08"), head("c8")}, "current, not saved")
	cycle()
	assert.True(t, b.wce(), "gone with the power")
	b.good(saved6, page(false))
	assert.Equal(t, []string{"881200", "881200", "881204"}, []string{head("08"), head("c8"), head("88")})
	cycle()
	assert.False(t, b.wce())
	assert.Equal(t, []bool{false}, kept)

	on := false
	again := newBench(t, Identity{Serial: "S", Saved: &on}, func(m *drive.Model) { m.Caching.Savable = true })
	assert.False(t, again.wce(), "as an earlier life has saved it")
	full := newBench(t, Identity{Save: func(bool) error { return errors.New("disk full") }}, func(m *drive.Model) { m.Caching.Savable = true })
	assert.Equal(t, "044400", full.refused(saved6, page(false)))
	assert.True(t, full.wce())
}
