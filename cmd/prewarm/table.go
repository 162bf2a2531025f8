package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/printable"
)

// style is a terminal's way to set a cell off. What it says is always in the words too.
type style string

const (
	plain  style = ""
	bold   style = "\x1b[1m"
	red    style = "\x1b[31m"
	green  style = "\x1b[32m"
	yellow style = "\x1b[33m"
	reset        = "\x1b[0m"
)

// cell is one text of a table, on one line.
type cell struct {
	text  string
	style style
}

// table aligns columns. It is not text/tabwriter because that counts the escape sequences of colours as text.
type table struct {
	colour  bool
	heading bool // the first row is one
	width   int  // to which lines are cut, in the last column; 0: they are not
	rows    [][]cell
}

// newTable starts a table with a heading, or without one for a list of properties.
func (a *app) newTable(heading ...string) *table {
	_, isTerminal := terminal(a.stdout)
	t := &table{colour: isTerminal && a.env("NO_COLOR") == "" && a.env("TERM") != "dumb"}
	if len(heading) > 0 {
		row := lists.Of(heading, func(h string) cell { return cell{h, bold} })
		t.heading = true
		t.rows = append(t.rows, row)
	}
	return t
}

// cellMost is how many characters of a cell a table with a heading shows: what a provider says of an error can be pages,
// which are in full where one thing is shown, and in JSON.
const cellMost = 160

// add appends a row of cells, or of anything that fmt can print. What has several lines is cut to its headline in a table
// with a heading.
func (t *table) add(values ...any) {
	row := make([]cell, len(values))
	for i, v := range values {
		c, ok := v.(cell)
		if !ok {
			c = cell{text: fmt.Sprint(v)}
		}
		if t.heading && strings.Contains(c.text, "\n") {
			c.text = printable.Headline(printable.Text(c.text))
		}
		row[i] = cellOf(c)
		if t.heading {
			row[i].text = cut(row[i].text, cellMost)
		}
	}
	t.rows = append(t.rows, row)
}

// cut is text in at most so many characters.
func cut(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return strings.TrimSpace(string(r[:most-1])) + "…"
	}
	return text
}

// addIf appends a property unless its value is empty or 0.
func (t *table) addIf(name string, value any) {
	if c := cellOf(value); c.text != "" && value != 0 {
		t.add(name, c)
	}
}

func cellOf(value any) cell {
	c, ok := value.(cell)
	if !ok {
		c = cell{text: fmt.Sprint(value)}
	}
	c.text = oneLine(c.text)
	return c
}

// String is the table as text; of a heading with nothing under it, nothing.
func (t *table) String() string {
	if t.heading && len(t.rows) == 1 {
		return ""
	}
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	var out strings.Builder
	for _, row := range t.rows {
		if last := len(row) - 1; t.width > 0 {
			before := 0
			for _, w := range widths[:last] {
				before += w + 2
			}
			const least = 20 // of the last column, however long the names are
			row[last].text = cut(row[last].text, max(t.width-before, least))
			widths[last] = 0
		}
		var line strings.Builder
		for i, c := range row {
			text := c.text
			if t.colour && c.style != plain {
				text = string(c.style) + text + reset
			}
			line.WriteString(text)
			line.WriteString(strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(c.text)+2)))
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return out.String()
}

// oneLine makes text from elsewhere fit for a cell.
func oneLine(text string) string {
	return strings.TrimSpace(strings.NewReplacer("\n", " ", "\t", " ").Replace(printable.Text(text)))
}

// stateCell sets off the states of workspaces and replicas that ask for attention, and those that are well.
func stateCell(state string) cell {
	switch state {
	case "ready", "alive":
		return cell{state, green}
	case "quarantined", "stale":
		return cell{state, red}
	case "draining", "deleting", "stopping":
		return cell{state, yellow}
	default:
		return cell{state, plain}
	}
}
