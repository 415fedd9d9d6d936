package sweep

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// evening is a Saturday, the last of a February.
func evening() time.Time { return time.Date(2025, 2, 28, 22, 4, 30, 0, time.UTC).AddDate(0, 0, 1) }

func agendaOf(t *testing.T, files map[string]string) *agenda {
	a := &agenda{root: t.TempDir(), timers: func(context.Context) ([]byte, error) { return nil, errors.New("no systemd") }}
	for name, text := range files {
		path := filepath.Join(a.root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
	}
	return a
}

func (a *agenda) texts(t *testing.T, members []string, now time.Time, ahead time.Duration) string {
	t.Helper()
	jobs, notes := a.jobs(context.Background(), members, now, now.Add(ahead))
	return strings.Join(append(jobTexts(jobs, now, now.Add(ahead)), notes...), "\n")
}

// What systemd 252 printed.
const timersOf252 = `[{"next":1740880800000000,"left":1740880800000000,"last":0,"passed":0,"unit":"mdcheck_start.timer","activates":"mdcheck_start.service"},` +
	`{"next":1740873783761384,"left":1740873783761384,"last":0,"passed":0,"unit":"soon.timer","activates":"soon.service"},` +
	`{"next":1741564800000000,"left":1741564800000000,"last":0,"passed":0,"unit":"fstrim.timer","activates":"fstrim.service"},` +
	`{"next":null,"left":null,"last":0,"passed":0,"unit":"never.timer","activates":"never.service"}]`

func TestTimersOfSystemd(t *testing.T) {
	a := agendaOf(t, map[string]string{"run/systemd/system/x": ""})
	a.timers = func(context.Context) ([]byte, error) { return []byte(timersOf252), nil }
	assert.Equal(t, "due at 02:00: mdcheck_start.timer checks md arrays: every member is read from end to end; "+
		"to keep it off: sudo systemctl stop mdcheck_start.timer, and start it again afterwards\nalso due before 06:04: soon.timer 00:03", a.texts(t, nil, evening(), 8*time.Hour))
	assert.Contains(t, a.texts(t, nil, evening(), 20*24*time.Hour), "due at 10 Mar 00:00: fstrim.timer trims file systems")
	assert.Empty(t, a.texts(t, nil, evening(), time.Hour))
	for _, wrong := range []string{"", "NEXT LEFT", `{"next":1}`} {
		a.timers = func(context.Context) ([]byte, error) { return []byte(wrong), nil }
		assert.Contains(t, a.texts(t, nil, evening(), time.Hour), "which timers are due meanwhile is not known: systemctl list-timers: ", wrong)
	}
	a.root = t.TempDir() // where systemd does not run it is not asked
	assert.Empty(t, a.texts(t, nil, evening(), time.Hour))
}

// Debian's own crontabs: the first Sunday of the month alone, and nothing of what systemd does.
const (
	cronOfMdadm = "# schedules periodic redundancy checks\n57 0 * * 0 root if [ -x /usr/share/mdadm/checkarray ] && [ $(date +\\%d) -le 7 ]; then /usr/share/mdadm/checkarray --cron --all --idle --quiet; fi\n"
	cronOfScrub = "30 3 * * 0 root test -e /run/systemd/system || SERVICE_MODE=1 /usr/lib/x86_64-linux-gnu/e2fsprogs/e2scrub_all_cron\n"
	crontab     = "SHELL=/bin/sh\n17 *\t* * *\troot\tcd / && run-parts --report /etc/cron.hourly\n25 6\t* * *\troot\ttest -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }\n@reboot root /bin/true\n"
)

func TestCrontabs(t *testing.T) {
	files := map[string]string{"proc/1/comm": "init\n", "proc/77/comm": "cron\n", "etc/cron.d/mdadm": cronOfMdadm, "etc/cron.d/e2scrub_all": cronOfScrub, "etc/cron.d/old.dpkg-old": "* * * * * root fstrim -a\n",
		"etc/crontab": crontab, "etc/cron.daily/fstrim": "#!/bin/sh\nexec fstrim -a\n", "etc/cron.daily/man-db": "#!/bin/sh\n# no backup\nmandb\n",
		"usr/share/mdadm/checkarray": "", "var/spool/cron/crontabs/somebody": "@daily restic backup /home\n"}
	a := agendaOf(t, files)
	said := a.texts(t, nil, evening(), 9*time.Hour)
	for _, line := range []string{"due at 00:00: /var/spool/cron/crontabs/somebody copies files;", "due at 00:57: /etc/cron.d/mdadm checks md arrays", "due at 03:30: /etc/cron.d/e2scrub_all reads whole file systems",
		"due at 06:25: /etc/cron.daily/fstrim trims file systems", "also due before 07:04: /etc/cron.daily/man-db 06:25"} {
		assert.Contains(t, said, line)
	}
	assert.Equal(t, 5, strings.Count(said, "due "), said)

	later := a.texts(t, nil, evening().AddDate(0, 0, 7), 9*time.Hour) // the second Saturday
	assert.NotContains(t, later, "mdadm")
	files["run/systemd/system/x"], files["usr/sbin/anacron"] = "", ""
	assert.NotContains(t, agendaOf(t, files).texts(t, nil, evening(), 9*time.Hour), "e2scrub")
	assert.NotContains(t, agendaOf(t, files).texts(t, nil, evening(), 9*time.Hour), "cron.daily")
	files["proc/77/comm"] = "bash\n"
	delete(files, "run/systemd/system/x")
	assert.Empty(t, agendaOf(t, files).texts(t, nil, evening(), 9*time.Hour), "no cron runs")
}

func TestCronTimes(t *testing.T) {
	for line, want := range map[string]string{
		"*/15 * * * * x":      "Sat 01 22:15",
		"5-10/5 23,0 * * * x": "Sat 01 23:05",
		"0 4 * mar mon-fri x": "Mon 03 04:00",
		"0 4 9 * 3 x":         "Wed 05 04:00", // either is enough
		"0 4 */9 * 3 x":       "Wed 19 04:00",
		"0 0 * * 7 x":         "Sun 02 00:00",
		"30 4/8 * * * x":      "Sun 02 04:30",
		"@weekly x":           "Sun 02 00:00",
		"@monthly x":          "",
		"0 0 29 2 * x":        "",
	} {
		times, command, ok := parseCron(line, false)
		require.True(t, ok, line)
		assert.Equal(t, "x", command)
		at, found := times.next(evening(), evening().Add(28*24*time.Hour))
		text := at.Format("Mon 02 15:04")
		if !found {
			text = ""
		}
		assert.Equal(t, want, text, line)
	}
	for _, wrong := range []string{"", "MAILTO=root", "@reboot x", "60 * * * * x", "* * * * *", "a * * * * x", "*/0 * * * * x", "5-1 * * * * x", "* * 0 * * x", "1- * * * * x"} {
		_, _, ok := parseCron(wrong, false)
		assert.False(t, ok, wrong)
	}
}

func TestSelfTestsOfSmartd(t *testing.T) {
	conf := "# DEVICESCAN -s S/../.././23\nDEVICESCAN -a -m root \\\n -s (S/../.././02|L/../../7/03)\n"
	files := map[string]string{"proc/5/comm": "smartd\n", "etc/smartd.conf": conf, "dev/sda": ""}
	said := agendaOf(t, files).texts(t, []string{"sda", "sdb"}, evening(), 8*time.Hour)
	assert.Equal(t, "due at 02:00: smartd starts a short self-test of sda sdb; to keep it off: stop smartd, or take its -s out of /etc/smartd.conf\n"+
		"due at 03:00: smartd starts a long self-test of sda sdb; to keep it off: stop smartd, or take its -s out of /etc/smartd.conf", said)
	files["etc/smartd.conf"] = "/dev/disk/by-id/one -a -s L/../../6/23:010\n/dev/sdc -s S/../.././23\n/dev/sdb -s (\n"
	a := agendaOf(t, files)
	require.NoError(t, os.MkdirAll(a.path("dev/disk/by-id"), 0o755))
	require.NoError(t, os.Symlink("../../sda", a.path("dev/disk/by-id/one")))
	assert.Contains(t, a.texts(t, []string{"sda", "sdb"}, evening(), 8*time.Hour), "due at 23:00: smartd starts a long self-test of sda;")
	assert.Equal(t, 1, strings.Count(a.texts(t, []string{"sda", "sdb"}, evening(), 8*time.Hour), "due at"))
	delete(files, "proc/5/comm")
	assert.Empty(t, agendaOf(t, files).texts(t, []string{"sda"}, evening(), 8*time.Hour), "no smartd runs")
}
