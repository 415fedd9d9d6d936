package workload

import (
	"fmt"
	"testing"
)

// BenchmarkBonnieCharacter is the loop of putc and getc with an engine that does nothing: what a character costs.
func BenchmarkBonnieCharacter(b *testing.B) {
	for _, phase := range []string{"putc", "getc"} {
		b.Run(phase, func(b *testing.B) {
			s, _ := NewSpec("b", "bonnie", map[string]string{"engine": "null", "size": fmt.Sprint(max(int64(b.N)&^8191, 8192))})
			run := &bonnie{s: s, tree: newFileTree(s, Target{}, 1), t: Target{}}
			l := run.phase(phase).lanes[0]
			if err := l.setup(); err != nil {
				b.Fatal(err)
			}
			defer l.close()
			b.ResetTimer()
			l.work(nil)
		})
	}
}
