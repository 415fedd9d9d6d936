package workload

// The names of bonnie's small files, made of a number and up to twelve letters and digits. In sequence the number comes first, so that the
// names come in order; at random it comes last, so that to the file system they come in none. A name follows from its number and
// the seed: millions of them take no memory.
const (
	digits      = 9 // 2^17 × 1024 files
	mostLetters = 12
	dirDigits   = 6
	longestName = dirDigits + 1 + digits + mostLetters + 1
)

// names makes the names of one set of files.
type names struct {
	seed     uint64
	random   bool
	files    int64
	dirs     int64
	min, max int64 // sizes
	path     [longestName]byte
}

// of is the path of a file, from the root of the tree, ended by a zero byte. It is good until the next one.
func (n *names) of(file int64) []byte {
	r := newRNG(n.seed, uint64(file))
	at := n.put(0, n.dir(file), dirDigits)
	n.path[at] = '/'
	at++
	letters := int(r.below(mostLetters + 1))
	if !n.random {
		at = n.put(at, file, digits)
	}
	const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	for range letters {
		n.path[at] = alphabet[r.below(uint64(len(alphabet)))]
		at++
	}
	if n.random {
		at = n.put(at, file, digits)
	}
	n.path[at] = 0
	return n.path[:at+1]
}

// folder is the path of a directory, ended by a zero byte.
func (n *names) folder(dir int64) []byte {
	at := n.put(0, dir, dirDigits)
	n.path[at] = 0
	return n.path[:at+1]
}

func (n *names) put(at int, value int64, width int) int {
	for i := width - 1; i >= 0; i-- {
		n.path[at+i] = byte('0' + value%10)
		value /= 10
	}
	return at + width
}

// dir is the directory that a file is in: each has its share of neighbours.
func (n *names) dir(file int64) int64 { return file * n.dirs / n.files }

// size is how many bytes a file has.
func (n *names) size(file int64) int64 {
	r := newRNG(n.seed, uint64(file), 1)
	return n.min + int64(r.below(uint64(n.max-n.min+1)))
}

// fileNumber is that of a file in sequence, from its name as the kernel lists it; false: it is no such name.
func fileNumber(name []byte) (file int64, ok bool) {
	if len(name) < digits || len(name) > digits+mostLetters {
		return 0, false
	}
	for _, c := range name[:digits] {
		if c < '0' || c > '9' {
			return 0, false
		}
		file = file*10 + int64(c-'0')
	}
	return file, true
}
