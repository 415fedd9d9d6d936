package stats

import (
	"slices"

	"qdsweep/sweep/results"
)

// Further metrics, which no phase is judged by unless somebody asks for it.
const (
	MBPerSSlowest Metric = "mb_per_s_slowest"
	LatMeanUS     Metric = "lat_mean_us"
	LatP50US      Metric = "lat_p50_us"
	LatP95US      Metric = "lat_p95_us"
	LatP99US      Metric = "lat_p99_us"
	LatP999US     Metric = "lat_p999_us"
	LatMaxUS      Metric = "lat_max_us"
)

// Metrics are all that can be asked for, by the names of their columns.
func Metrics() []Metric {
	return []Metric{MBPerS, IOPS, Seconds, MBPerSSlowest, LatMeanUS, LatP50US, LatP95US, LatP99US, LatP999US, LatMaxUS}
}

// LessIsBetter says of times and latencies what nobody would of rates.
func (m Metric) LessIsBetter() bool {
	return !slices.Contains([]Metric{MBPerS, IOPS, MBPerSSlowest}, m)
}

// latency is the column of a metric that is one of latency.
func (m Metric) latency(r results.Row) results.Num {
	switch m {
	case LatMeanUS:
		return r.LatMeanUS
	case LatP50US:
		return r.LatP50US
	case LatP95US:
		return r.LatP95US
	case LatP99US:
		return r.LatP99US
	case LatP999US:
		return r.LatP999US
	case LatMaxUS:
		return r.LatMaxUS
	}
	return results.Num{}
}
