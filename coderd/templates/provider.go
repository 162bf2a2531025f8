package templates

import (
	"encoding/json"
	"path/filepath"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// defaultLimits are those of a provider whose file says nothing of them (S5).
func defaultLimits() Provider {
	return Provider{
		CreatesInFlight: 16, Chunk: 1_000, CreateBurst: 1, InventoryEvery: time.Minute,
		Breaker: Breaker{Count: 10, Percent: 25, Errors: 50, Clean: 3},
	}
}

// Where machines exist beforehand, a slip would take them all at once, so that fewer are begun, and one after the other (S5).
const (
	reservedMaximum, reservedChunk = 50, 20
	reservedEvery                  = 5 * time.Second
)

// ofMachines is the provider of a file as one whose machines exist beforehand, if it is one: what the file does not say is
// less then. Which it is, its configuration may decide, so that it is known when the provider was made.
func (p Provider) ofMachines(reserves bool) Provider {
	p.Reserves = reserves
	if !reserves {
		return p
	}
	if !p.said.maximum {
		p.Maximum = reservedMaximum
	}
	if !p.said.chunk {
		p.Chunk = reservedChunk
	}
	if !p.said.every {
		p.CreateEvery = reservedEvery
	}
	return p
}

const maxEvery = 24 * time.Hour // between two creates or inventories

func (d decoder) provider(n ast.Node) Provider {
	const never = ": with 0 nothing would ever be created"
	p := defaultLimits()
	p.Config, p.at = json.RawMessage(`{}`), position(n)
	d.object(n, titled(n, "provider"),
		setting{key: "name", required: true, read: func(n ast.Node) { p.Name, p.at = d.name(n, "provider name"), position(n) }},
		setting{key: "kind", required: true, read: func(n ast.Node) { p.Kind, p.kindAt = d.text(n, "kind"), position(n) }},
		setting{key: "config", read: func(n ast.Node) {
			p.configAt = position(n)
			p.Config, _ = d.freeform(n, "config")
		}},
		setting{key: "maximum", read: func(n ast.Node) {
			p.Maximum, p.said.maximum = d.integer(n, "maximum", 0, maxLimit, "; 0 is no limit"), true
		}},
		d.integerInto(&p.CreatesInFlight, "creates_in_flight", 1, maxLimit, never),
		setting{key: "chunk", read: func(n ast.Node) { p.Chunk, p.said.chunk = d.integer(n, "chunk", 1, maxLimit, never), true }},
		setting{key: "create_every", read: func(n ast.Node) {
			p.CreateEvery, p.said.every = d.duration(n, "create_every", maxEvery), true
		}},
		d.integerInto(&p.CreateBurst, "create_burst", 1, maxLimit, never),
		d.durationInto(&p.InventoryEvery, "inventory_every", maxEvery),
		setting{key: "breaker", read: func(n ast.Node) { d.breaker(n, &p.Breaker) }},
		setting{key: "data_plane", read: func(n ast.Node) {
			d.object(n, "data_plane",
				setting{key: "enter", read: func(n ast.Node) { p.DataPlane.Enter = d.boolean(n, "enter") }},
				setting{key: "public_ports", read: func(n ast.Node) { p.DataPlane.PublicPorts = d.boolean(n, "public_ports") }})
		}})
	d.checkRoot(p)
	return p
}

// checkRoot refuses a directory that would be another one for each server, by where it was started. Those that are stored
// already stay as they are.
func (d decoder) checkRoot(p Provider) {
	var config struct {
		Root string `json:"root"`
	}
	if p.Kind != "local" && p.Kind != "sim" || json.Unmarshal(p.Config, &config) != nil || config.Root == "" {
		return
	}
	if !filepath.IsAbs(config.Root) {
		d.problems.add(p.configAt, "config.root %s is relative to wherever a server is started: give an absolute path",
			quote(config.Root))
	}
}

// breaker reads when a breaker opens and closes. What is left out keeps its default.
func (d decoder) breaker(n ast.Node, b *Breaker) {
	d.object(n, "breaker",
		d.integerInto(&b.Count, "count", 1, maxLimit, ": with 0 it would always be open"),
		setting{key: "percent", read: func(n ast.Node) { b.Percent = d.someOf(n, "percent") }},
		setting{key: "errors", read: func(n ast.Node) { b.Errors = d.someOf(n, "errors") }},
		d.integerInto(&b.Clean, "clean", 1, 1_000, ": with 0 it would close before anything is better"))
}

// someOf reads a share like "25%" that is not nothing.
func (d decoder) someOf(n ast.Node, what string) int32 {
	before := len(d.problems.List)
	v := d.percent(n, what, 100)
	if v == 0 && len(d.problems.List) == before {
		d.problems.add(position(n), `%s is "0%%": it must be "1%%" to "100%%": with 0%% the breaker would always be open`, what)
		return 1
	}
	return v
}
