package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"qdsweep/sweep/results"
	"qdsweep/sweep/stats"
)

// Compared is one set of results against another, and what they are.
type Compared struct {
	stats.Comparison
	Base, New Measured
	Warnings  []string // of reading
}

// Measured is what the rows say of one side.
type Measured struct {
	Results []string `json:"results"`
	Sweeps  []string `json:"sweeps"`
	Hosts   []string `json:"hosts"`
	Kernels []string `json:"kernels"`
	Targets []string `json:"targets"`
	Rows    int      `json:"rows"`
}

// Compare reads both twice and holds a number a row. Errors are those of reading, stats.ErrNothingInCommon and stats.ErrNoFigure.
func Compare(base, other Data, metric stats.Metric, g stats.Gating) (*Compared, error) {
	c := &Compared{Warnings: slices.Concat(base.Warnings, other.Warnings)}
	there, err := c.measured(base, &c.Base, metric)
	if err != nil {
		return nil, err
	}
	here, err := c.measured(other, &c.New, metric)
	if err != nil {
		return nil, err
	}
	c.Comparison, err = stats.Compare(there, here, g)
	return c, err
}

func (c *Compared) measured(d Data, m *Measured, metric stats.Metric) (*stats.Study, error) {
	s := stats.NewComparing(metric)
	m.Results = d.resultFiles()
	last := map[runID]int{} // of runs that were repeated
	for r, err := range d.Rows() {
		if err != nil {
			if !bearable(err) {
				return nil, err
			}
			c.Warnings = append(c.Warnings, err.Error())
			continue
		}
		if id := (runID{r.Sweep, r.Run}); r.Attempt > max(1, last[id]) {
			last[id] = r.Attempt
		}
	}
	for r, err := range d.Rows() {
		if err != nil || r.Attempt < last[runID{r.Sweep, r.Run}] {
			continue
		}
		m.Rows++
		for _, fact := range []struct {
			of   *[]string
			text string
		}{{&m.Sweeps, r.Sweep}, {&m.Hosts, r.Host}, {&m.Kernels, r.Kernel}, {&m.Targets, r.Target}} {
			if fact.text != "" && !slices.Contains(*fact.of, fact.text) && len(*fact.of) < 16 {
				*fact.of = append(*fact.of, fact.text)
			}
		}
		s.Add(r)
	}
	return s, nil
}

// title is one side in a line.
func (m Measured) title() string {
	text := some(m.Sweeps)
	parts := []string{strings.Join(text, ", ")}
	if len(m.Kernels) > 0 {
		parts = append(parts, "Linux "+strings.Join(m.Kernels, ", "))
	}
	if len(m.Targets) > 0 {
		parts = append(parts, "on "+strings.Join(m.Targets, ", "))
	}
	return strings.Join(parts, ", ") + ", " + count(m.Rows, "row")
}

// mostPairs is how many cells of a phase the text names; regressions come first.
const mostPairs = 40

// CompareText writes a comparison for people.
func CompareText(w io.Writer, c *Compared, width int) error {
	if width <= 0 {
		width = 120
	}
	p := &page{width: max(width, 40)}
	p.paragraph("base  ", c.Base.title())
	p.paragraph("new   ", c.New.title())
	p.paragraph("", fmt.Sprintf("A regression is a change for the worse by more than %.3g %%, with p below %.2g after Holm over %s.", 100*c.MaxRegression, stats.Significance, count(c.Looked, "comparison")))
	for _, ph := range c.phaseIDs() {
		p.blank()
		p.compared(c, ph)
	}
	p.blank()
	for _, e := range c.Extra {
		p.paragraph("extra      ", fmt.Sprintf("%s, %s: not in the base", e.Cell, workPhase(e.PhaseID)))
	}
	for _, warning := range c.Comparison.Warnings {
		p.paragraph("warning    ", workPhase(warning.PhaseID)+": "+warning.Text)
	}
	for _, warning := range c.Warnings {
		p.paragraph("warning    ", warning)
	}
	p.paragraph("", c.sentence())
	_, err := io.WriteString(w, p.text.String())
	return err
}

func workPhase(id stats.PhaseID) string {
	if id.Workload == id.Phase {
		return id.Workload
	}
	return id.Workload + " " + id.Phase
}

func (c *Compared) phaseIDs() (list []stats.PhaseID) {
	known := map[stats.PhaseID]bool{}
	for _, p := range c.Pairs {
		if !known[p.PhaseID] {
			known[p.PhaseID] = true
			list = append(list, p.PhaseID)
		}
	}
	return list
}

// compared is the table of one phase.
func (p *page) compared(c *Compared, id stats.PhaseID) {
	var pairs []*stats.Pair
	for i := range c.Pairs {
		if c.Pairs[i].PhaseID == id {
			pairs = append(pairs, &c.Pairs[i])
		}
	}
	better := "more is better"
	if pairs[0].Metric.LessIsBetter() {
		better = "less is better"
	}
	head := fmt.Sprintf("%s, %s (%s)", workPhase(id), pairs[0].Metric.Unit(), better)
	for _, ph := range c.Phases {
		if ph.PhaseID != id {
			continue
		}
		if ph.NoisePercent != nil {
			head += fmt.Sprintf("; noise of a run %.2g %%", *ph.NoisePercent)
		}
		if ph.Low != nil {
			head += fmt.Sprintf("; over all %s %+.3g %% (%+.3g to %+.3g)", count(ph.Cells, "cell"), ph.Percent, *ph.Low, *ph.High)
		}
	}
	p.paragraph("", head)
	rank := func(o stats.Outcome) int {
		return slices.Index([]stats.Outcome{stats.Regression, stats.Missing, stats.NotComparable, stats.Improvement, stats.Inconclusive, stats.NoRegression}, o)
	}
	left := 0
	if len(pairs) > mostPairs {
		slices.SortStableFunc(pairs, func(a, b *stats.Pair) int { return rank(a.Outcome) - rank(b.Outcome) })
		left, pairs = len(pairs)-mostPairs, pairs[:mostPairs]
	}
	columns := []column{{head: []string{"cell"}, left: true}, {head: []string{"base"}}, {head: []string{"new"}}, {head: []string{"change"}}, {head: []string{"95 % interval"}}, {head: []string{"p"}}, {left: true, head: []string{""}}}
	for _, pair := range pairs {
		text := []string{pair.Cell, middle(pair.Base), middle(pair.New), "", "", "", string(pair.Outcome)}
		if pair.Outcome != stats.Missing && pair.Outcome != stats.NotComparable {
			text[3] = fmt.Sprintf("%+.1f %%", pair.Percent)
		}
		if pair.Low != nil {
			text[4] = fmt.Sprintf("%+.1f to %+.1f", *pair.Low, *pair.High)
		}
		if pair.P != nil {
			text[5] = pText(*pair.P)
		}
		if pair.Outcome == stats.Regression {
			text[6] = "REGRESSION"
		}
		for i := range columns {
			columns[i].cells = append(columns[i].cells, text[i])
		}
	}
	for _, line := range layout(columns) {
		p.line(line)
	}
	if left > 0 {
		p.paragraph("", fmt.Sprintf("and %s; --format json has all", count(left, "cell")))
	}
	p.why(c, id)
}

// why says once what several cells have in common.
func (p *page) why(c *Compared, id stats.PhaseID) {
	known := map[string]int{}
	var order []string
	for _, pair := range c.Pairs {
		if pair.PhaseID != id || pair.Reason == "" {
			continue
		}
		text := string(pair.Outcome) + ": " + pair.Reason
		if known[text] == 0 {
			order = append(order, text)
		}
		known[text]++
	}
	for i, text := range order {
		if i == 5 {
			p.paragraph("", fmt.Sprintf("and %s; --format json has all", count(len(order)-i, "further reason")))
			break
		}
		p.paragraph("", fmt.Sprintf("%s (%s)", text, count(known[text], "cell")))
	}
	for _, ph := range c.Phases {
		if ph.PhaseID == id && ph.Needs > 0 && slices.ContainsFunc(c.Pairs, func(q stats.Pair) bool {
			return q.PhaseID == id && q.Outcome == stats.Inconclusive && q.P != nil
		}) {
			runs := fmt.Sprintf("about %d runs", ph.Needs)
			if ph.Needs >= 1000 {
				runs = "1000 runs or more"
			}
			p.paragraph("", fmt.Sprintf("at this noise a change of %.3g %% takes %s a cell, in both", 100*c.MaxRegression, runs))
		}
	}
}

func middle(s stats.Side) string {
	if s.N == 0 {
		return ""
	}
	return results.NumOf(math.Round(s.Median*1000) / 1000).String()
}

func pText(p float64) string {
	if p < 0.0001 {
		return "<0.0001"
	}
	return fmt.Sprintf("%.2g", p)
}

// sentence is what the comparison comes to.
func (c *Compared) sentence() string {
	counts := map[stats.Outcome]int{}
	for _, p := range c.Pairs {
		counts[p.Outcome]++
	}
	var parts []string
	for _, o := range []stats.Outcome{stats.Regression, stats.Improvement, stats.NoRegression, stats.Inconclusive, stats.NotComparable, stats.Missing} {
		if counts[o] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[o], o))
		}
	}
	verdict := map[stats.Outcome]string{
		stats.Regression: "REGRESSION", stats.Inconclusive: "INCONCLUSIVE: a regression could have gone unseen", stats.NoRegression: "no regression",
	}[c.Outcome]
	return fmt.Sprintf("%s: %s = %s", verdict, count(len(c.Pairs), "comparison"), strings.Join(parts, " + "))
}

// The JSON form of a comparison.
type (
	comparedJSON struct {
		Outcome       stats.Outcome `json:"outcome"`
		MaxRegression float64       `json:"max_regression_percent"`
		Looked        int           `json:"comparisons_tested"`
		Base          Measured      `json:"base"`
		New           Measured      `json:"new"`
		Phases        []phaseChange `json:"phases"`
		Comparisons   []pairJSON    `json:"comparisons"`
		Extra         []pairJSON    `json:"extra"`
		Warnings      []string      `json:"warnings"`
	}
	phaseChange struct {
		Workload string   `json:"workload"`
		Phase    string   `json:"phase"`
		Metric   string   `json:"metric"`
		Better   string   `json:"better"`
		Cells    int      `json:"cells"`
		Noise    *float64 `json:"noise_percent"`
		Degrees  float64  `json:"degrees_of_freedom"`
		Percent  *float64 `json:"percent"`
		Low      *float64 `json:"low"`
		High     *float64 `json:"high"`
		Needs    int      `json:"runs_needed"`
	}
	pairJSON struct {
		Workload string        `json:"workload"`
		Phase    string        `json:"phase"`
		Cell     string        `json:"cell"`
		Metric   string        `json:"metric"`
		Outcome  stats.Outcome `json:"outcome"`
		Base     sideJSON      `json:"base"`
		New      sideJSON      `json:"new"`
		Percent  *float64      `json:"percent"`
		Low      *float64      `json:"low"`
		High     *float64      `json:"high"`
		P        *float64      `json:"p"`
		Alone    *float64      `json:"p_alone"`
		Smallest *float64      `json:"smallest_percent"`
		Reason   string        `json:"reason"`
	}
	sideJSON struct {
		N       int     `json:"n"`
		Median  *number `json:"median"`
		Mean    *number `json:"mean"`
		Suspect int     `json:"suspect"`
		Failed  int     `json:"failed"`
		Skipped int     `json:"skipped"`
	}
)

// CompareJSON writes one object with all of a comparison.
func CompareJSON(w io.Writer, c *Compared) error {
	doc := comparedJSON{Outcome: c.Outcome, MaxRegression: 100 * c.MaxRegression, Looked: c.Looked, Base: c.Base, New: c.New,
		Phases: []phaseChange{}, Comparisons: []pairJSON{}, Extra: []pairJSON{}, Warnings: some(c.Warnings)}
	for _, warning := range c.Comparison.Warnings {
		doc.Warnings = append(doc.Warnings, workPhase(warning.PhaseID)+": "+warning.Text)
	}
	for _, p := range c.Phases {
		better := "more"
		if p.Metric.LessIsBetter() {
			better = "less"
		}
		doc.Phases = append(doc.Phases, phaseChange{p.Workload, p.Phase, string(p.Metric), better, p.Cells, rounded(p.NoisePercent), p.Degrees, rounded(&p.Percent), rounded(p.Low), rounded(p.High), p.Needs})
	}
	for _, p := range c.Pairs {
		doc.Comparisons = append(doc.Comparisons, pairOf(p))
	}
	for _, p := range c.Extra {
		j := pairOf(p)
		j.Outcome, j.Percent = "extra", nil
		doc.Extra = append(doc.Extra, j)
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return fmt.Errorf("make the comparison's JSON: %w", err)
	}
	_, err = w.Write(append(printableJSON(text), '\n'))
	return err
}

func pairOf(p stats.Pair) pairJSON {
	j := pairJSON{Workload: p.Workload, Phase: p.Phase, Cell: p.Cell, Metric: string(p.Metric), Outcome: p.Outcome, Base: sideFor(p.Base), New: sideFor(p.New),
		Low: rounded(p.Low), High: rounded(p.High), P: rounded(p.P), Alone: rounded(p.Alone), Smallest: rounded(p.Smallest), Reason: p.Reason}
	if p.Outcome != stats.Missing && p.Outcome != stats.NotComparable {
		j.Percent = rounded(&p.Percent)
	}
	return j
}

func sideFor(s stats.Side) sideJSON {
	j := sideJSON{N: s.N, Suspect: s.Suspect, Failed: s.Failed, Skipped: s.Skipped}
	if s.N > 0 {
		median, mean := number(s.Median), number(s.Mean)
		j.Median, j.Mean = &median, &mean
	}
	return j
}
