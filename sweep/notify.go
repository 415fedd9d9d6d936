package sweep

import (
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"qdsweep/sysfs/md"
	"qdsweep/workload"
)

// Notifier is the line to the service manager that started this process: one datagram for each thing that is said (sd_notify(3)). A nil one says nothing.
type Notifier struct {
	fd       int
	to       unix.SockaddrUnix
	watchdog time.Duration // how often it wants to hear that all is well; 0: it does not
}

// TakeNotifier takes the line from the environment, in which it is not left: keeper, worker and the commands of a profile would speak for this process, or
// be taken for it. It is nil where no service manager listens.
func TakeNotifier() *Notifier {
	socket, usec, pid := os.Getenv("NOTIFY_SOCKET"), os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		os.Unsetenv(name)
	}
	if len(socket) < 2 || !strings.ContainsRune("/@", rune(socket[0])) {
		return nil
	}
	// Never waiting: a manager that does not read must not hold up a sweep.
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	n := &Notifier{fd: fd, to: unix.SockaddrUnix{Name: socket}} // @ is an abstract one, for x/sys, too
	if us, err := strconv.ParseInt(usec, 10, 64); err == nil && us > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.watchdog = time.Duration(us) * time.Microsecond
	}
	return n
}

// tell says things, KEY=value each. What nobody hears is lost.
func (n *Notifier) tell(states ...string) {
	if n == nil {
		return
	}
	for i, s := range states {
		states[i] = strings.ReplaceAll(s, "\n", " ") // a line each
	}
	_ = unix.Sendto(n.fd, []byte(strings.Join(states, "\n")), unix.MSG_NOSIGNAL, &n.to)
}

// announce lets the system know that a sweep goes on, until the function that it gives is called: the service manager is told, and the machine kept awake.
func (s *Sweep) announce(ctx context.Context) (over func()) {
	telling, release := s.startTelling(), s.stayAwake(ctx)
	return func() { telling.stop(); release() }
}

// teller keeps the service manager informed while a sweep goes on: what it is at, in the words of `status`, and, where there is a watchdog, that it does go on.
type teller struct {
	quit, done chan struct{}
}

// tellEvery is how often the manager hears of a change. It writes the text down, and a short run is over in less.
const tellEvery = time.Second

// startTelling says that the sweep has begun, and goes on telling until stop.
func (s *Sweep) startTelling() *teller {
	n := s.opt.Notify
	if n == nil {
		return nil
	}
	t := &teller{quit: make(chan struct{}), done: make(chan struct{})}
	every := tellEvery
	if n.watchdog > 0 {
		every = min(every, n.watchdog/3)
	}
	said := s.status.sentence()
	n.tell("READY=1", "STATUS="+said)
	go func() {
		defer close(t.done)
		tick := time.NewTicker(max(every, time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-t.quit:
				n.tell("STATUS=" + s.status.sentence())
				return
			case <-tick.C:
			}
			if n.watchdog > 0 && s.goesOn(workload.Monotonic()) {
				n.tell("WATCHDOG=1")
			}
			if now := s.status.sentence(); now != said {
				said = now
				n.tell("STATUS=" + said)
			}
		}
	}()
	return t
}

func (t *teller) stop() {
	if t == nil {
		return
	}
	close(t.quit)
	<-t.done
}

// step notes that the sweep has come to another step.
func (s *Sweep) step() { s.stepped.Store(workload.Monotonic()) }

// goesOn says whether the sweep's loop is alive at a time of the monotonic clock: each of its steps ends by itself within longestStep. That this process can send
// is no sign of it.
func (s *Sweep) goesOn(now int64) bool {
	return time.Duration(now-s.stepped.Load()) < s.longestStep()
}

// longestStep is more than any wait of a sweep takes between two of its events: a run's timeout twice (a sync, and what it left in flight), a command of the user's, the wait for rest, another keeper, the
// removal of what a sweep has made; the making of a directory's files, and of a file system, for which mkfs has as long.
func (s *Sweep) longestStep() time.Duration {
	p := s.plan.Profile
	step := 2*s.timeout() + keeperLimit + p.Hooks.Timeout + hookGrace + hookStuck + 10*p.Settle + takeDownLimit + restoreLimit + reviveLimit + time.Duration(s.plan.FilesNeeded())*perFile
	var making time.Duration
	for _, t := range s.plan.Targets {
		if t.files() {
			making = max(making, s.layOutLimit())
		}
		if t.made() && t.Build.Filesystem != "" {
			making = max(making, md.MkfsLimit(t.Stack.Bytes))
		}
	}
	return step + making
}
