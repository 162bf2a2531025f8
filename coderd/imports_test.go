package coderd_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/prewarm-dev/prewarm"

// room is what the files of one folder may import. Tests may import what they like, and so may folders whose name ends in
// "test", which nobody else may import.
type room struct {
	inside  []string            // of this module; "all" is all but the wiring
	outside []string            // of other modules; nil: any
	never   []string            // of the standard library, with all below it
	only    map[string][]string // of inside, what only these files may import
}

// door is the code of the statements of one group. What writes a table is in its owner's (scripts/rules/owners.go), so
// that what a room may import is what it may write; viewsdb only reads, and is open to every room that has the database.
var door = regexp.MustCompile(`^database/\w+db$`)

// with is a room that may import some more.
func with(r room, inside ...string) room {
	r.inside = append(slices.Clone(r.inside), inside...)
	return r
}

// Rooms that are alike. What a room needs of its neighbour is a hint, or a func or an interface that coderd/replica passes in.
var (
	decides = room{inside: []string{"coderd/hints", "coderd/workspaces", "coderd/prebuilds", "coderd/printable", "coderd/explain", "coderd/tracing", "coderd/lease", "database", "database/viewsdb"}}
	drives  = room{inside: append(slices.Clone(decides.inside), "coderd/provider")}
	stores  = room{inside: []string{"database"}}
	leased  = room{inside: []string{"coderd/lease", "database"}}
	place   = room{inside: []string{"coderd/provider"}}
	places  = room{inside: []string{"coderd/provider", "coderd/provider/program", "coderd/provider/specs"}}
	leaf    = room{}
)

// rooms is DESIGN section 2: imports go one way. A new folder gets a line here first.
var rooms = map[string]room{
	"cmd/prewarm": {
		inside: []string{"coderd", "coderd/agent", "coderd/coder", "coderd/humanlog", "coderd/modules", "coderd/printable", "coderd/sdk", "coderd/tree", "coderd/provider/docker", "coderd/provider/kubernetes", "coderd/provider/local"},
		only: map[string][]string{
			"coderd/agent":               {"agent.go"},
			"coderd/coder":               {"import_coder.go"},
			"coderd":                     {"after_restore.go", "hosting.go", "server.go", "server_notify.go"}, // everything else is a client
			"coderd/provider/docker":     {"hosting.go"},                                                      // this binary also kills for exec, inside of a container
			"coderd/provider/kubernetes": {"hosting.go"},                                                      // this binary also copies itself, as an init container
			"coderd/provider/local":      {"hosting.go"},                                                      // this binary is also the supervisor of a workspace
		},
	},
	"coderd":                 {inside: []string{"all", "examples", "database/serverdb", "database/viewsdb"}},
	"coderd/agent":           {inside: []string{"coderd/agent/files", "coderd/agent/ports", "coderd/agent/processes", "coderd/agent/ssh", "coderd/provider", "coderd/sdk", "coderd/streams"}},
	"coderd/agent/ports":     {inside: []string{"coderd/sdk", "coderd/streams"}},
	"coderd/agent/files":     {inside: []string{"coderd/sdk", "coderd/tree"}},
	"coderd/agent/processes": {inside: []string{"coderd/sdk"}},
	"coderd/agent/ssh":       {inside: []string{"coderd/agent/processes", "coderd/sdk"}},
	"coderd/alerts":          {inside: []string{"coderd/hints", "coderd/explain", "coderd/lease", "coderd/prebuilds", "coderd/sdk", "database", "database/alertsdb", "database/viewsdb"}},
	"coderd/api": {inside: []string{
		"coderd/alerts", "coderd/auth", "coderd/claim", "coderd/demand/entities", "coderd/demand/forge", "coderd/demand/inbox",
		"coderd/demand/runners", "coderd/instance", "coderd/inventory", "coderd/lifecycle",
		"coderd/events", "coderd/explain", "coderd/hints", "coderd/modules",
		"coderd/prebuilds", "coderd/printable", "coderd/provider", "coderd/provider/conformance", "coderd/reconcile", "coderd/sdk",
		"coderd/autosize", "coderd/serve", "coderd/sizing", "coderd/states", "coderd/streams", "coderd/templates", "coderd/tunnel", "coderd/workspaces", "database", "database/apidb", "database/viewsdb", "site",
	}},
	"coderd/auth":                 with(stores, "database/authdb", "database/viewsdb"),
	"coderd/autosize":             {inside: []string{"coderd/hints", "coderd/lease", "coderd/sizing", "database", "database/autosizedb", "database/viewsdb"}},
	"coderd/chaos":                leaf,
	"coderd/chaos/engine":         leaf,
	"coderd/chaos/failover":       leaf,
	"coderd/e2e/gitea":            leaf,
	"coderd/e2e/kubernetes":       leaf,
	"coderd/e2e/kubernetes/scale": leaf,
	"coderd/tied":                 leaf,
	"coderd/e2e/upgrade":          leaf,
	"coderd/chaos/storm":          leaf,
	"coderd/chaos/judge":          leaf,
	"coderd/coder":                {inside: []string{"coderd/modules"}, never: []string{"net/http", "log", "database"}},
	"coderd/claim":                with(decides, "coderd/auth", "database/claimdb"),
	"coderd/demand":               leaf,
	// They agree through rows, and never import one another: what one needs of another is a func or an interface.
	"coderd/demand/entities": {inside: []string{"coderd/auth", "coderd/demand/forge", "coderd/seal", "database", "database/entitiesdb"}},
	"coderd/demand/forge":    leaf,
	"coderd/demand/gitea":    {inside: []string{"coderd/demand/forge", "coderd/demand/rest"}},
	"coderd/demand/github":   {inside: []string{"coderd/demand/forge", "coderd/demand/rest"}},
	"coderd/demand/inbox":    {inside: []string{"coderd/hints", "coderd/demand/forge", "coderd/lease", "coderd/tracing", "database", "database/inboxdb"}},
	"coderd/demand/replay":   leaf,
	"coderd/demand/rest":     {inside: []string{"coderd/demand/forge"}},
	"coderd/demand/runners":  {inside: []string{"coderd/hints", "coderd/demand/forge", "coderd/lease", "coderd/prebuilds", "coderd/provider", "coderd/seal", "coderd/tracing", "coderd/workspaces", "database", "database/runnersdb", "database/viewsdb"}},
	"coderd/seal":            leaf,
	"coderd/e2e":             leaf,
	"coderd/events":          {inside: []string{"coderd/hints", "coderd/auth", "coderd/sdk", "database", "database/eventsdb", "database/viewsdb"}},
	"coderd/faults":          leaf,
	"coderd/explain": {
		inside: []string{"coderd/prebuilds", "coderd/printable"}, outside: []string{},
		never: []string{"context", "log", "net", "os", "database", "syscall", "math/rand", "crypto/rand"},
	},
	"coderd/hints":     leaf,
	"coderd/humanlog":  {inside: []string{"coderd/printable"}},
	"coderd/instance":  with(drives, "coderd/seal", "database/instancedb"),
	"coderd/inventory": with(drives, "database/inventorydb"),
	"coderd/lease":     leaf,
	"coderd/lists":     {outside: []string{}, never: []string{"context", "log", "net", "os", "database"}},
	"coderd/metric":    {outside: []string{"github.com/prometheus/client_golang"}},
	"coderd/leases":    with(decides, "database/leasesdb"),
	"coderd/lifecycle": with(drives, "database/lifecycledb"),
	"coderd/prebuilds": {
		inside:  []string{"coderd/printable"}, // pure too
		outside: []string{"github.com/google/uuid", "golang.org/x/xerrors", "github.com/robfig/cron/v3"},
		never:   []string{"context", "log", "net", "os", "database", "syscall", "math/rand", "crypto/rand"},
	},
	"coderd/modules":              {inside: []string{"coderd/tree"}, never: []string{"net", "log"}},
	"coderd/printable":            leaf,
	"coderd/provider":             leaf,
	"coderd/provider/conformance": place,
	"coderd/provider/docker":      places,
	"coderd/provider/external":    places,
	"coderd/provider/hosts":       places,
	"coderd/provider/kubernetes":  {inside: []string{"coderd/provider", "coderd/provider/specs", "coderd/tree"}},
	"coderd/provider/local":       places,
	"coderd/provider/program":     place,
	"coderd/provider/sim":         places,
	"coderd/provider/specs":       place,
	"coderd/provider/terraform":   with(places, "coderd/modules"),
	"coderd/reconcile":            with(decides, "database/reconciledb"),
	"coderd/replica":              {inside: []string{"all", "database/viewsdb"}},
	"coderd/replicas":             with(leased, "database/replicasdb"),
	"coderd/retention":            with(leased, "database/retentiondb"),
	"coderd/sdk": {
		outside: []string{
			"github.com/google/uuid", "golang.org/x/xerrors", "github.com/coder/quartz", "github.com/coder/websocket",
		},
		never: []string{"log", "os", "database"},
	},
	"coderd/serve":      leaf,
	"coderd/simulation": leaf,
	"coderd/sizing": {
		outside: []string{"golang.org/x/xerrors"},
		never:   []string{"context", "log", "net", "os", "database", "syscall", "math/rand", "crypto/rand"},
	},
	"coderd/templates": {inside: []string{
		"coderd/auth", "coderd/demand/forge", "coderd/prebuilds", "coderd/provider", "coderd/sdk", "coderd/sizing", "database", "database/templatesdb", "database/viewsdb",
	}},
	"coderd/states":  {inside: []string{"coderd/modules", "coderd/seal", "database", "database/statesdb"}},
	"coderd/streams": leaf,
	"coderd/tracing": stores,
	"coderd/tree":    {outside: []string{"golang.org/x/xerrors"}, never: []string{"net", "log"}},
	"coderd/tunnel":  {inside: []string{"coderd/hints", "coderd/lease", "coderd/streams", "database", "database/tunneldb"}},
	"coderd/wait":    {outside: []string{"github.com/coder/quartz"}, never: []string{"log", "net", "os", "database"}},
	"coderd/workspaces": {inside: []string{
		"coderd/explain", "coderd/prebuilds", "coderd/printable", "coderd/tracing", "database", "database/viewsdb", "database/workspacesdb",
	}},
	"database":          leaf,
	"deploy":            leaf,
	"database/embedded": leaf,
	"database/pubsub":   stores,
	"examples":          leaf,
	"scripts/promql":    leaf,

	"scripts/coder/misbehaving": leaf, // of the module scripts/coder
	"scripts/rules":             leaf,
	"scripts/sitetypes":         {inside: []string{"coderd/api", "coderd/auth", "database"}},
	"site":                      leaf,
}

// wiring is what no room may import, and everyTest what nobody may but tests. Only the server imports coderd/replica.
var (
	wiring    = regexp.MustCompile(`^(coderd|cmd/.*)$`)
	everyTest = regexp.MustCompile(`test(/|$)`)
)

// everybodys are leaves that every room may import.
var everybodys = []string{"coderd/lists", "coderd/metric", "coderd/wait"}

// allows says whether a file of the room may import the package.
func (r room) allows(file, imported string) bool {
	if inside, ok := strings.CutPrefix(imported, module+"/"); ok {
		if files, ok := r.only[inside]; ok && !slices.Contains(files, file) {
			return false
		}
		all := slices.Contains(r.inside, "all") && !wiring.MatchString(inside) && !door.MatchString(inside)
		return (all || slices.Contains(everybodys, inside) || slices.Contains(r.inside, inside)) && !everyTest.MatchString(inside)
	}
	under := func(parent string) bool { return imported == parent || strings.HasPrefix(imported, parent+"/") }
	if first, _, _ := strings.Cut(imported, "/"); strings.Contains(first, ".") {
		return !under("github.com/stretchr/testify") && (r.outside == nil || slices.ContainsFunc(r.outside, under))
	}
	return !under("testing") && !slices.ContainsFunc(r.never, under)
}

// violations reads the imports of all files of the product, for all platforms.
func violations(t *testing.T, tree fs.FS) (found []string, seen map[string]bool) {
	t.Helper()
	seen = make(map[string]bool)
	require.NoError(t, fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "build", "node_modules", "testdata"}, entry.Name()) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		source, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir, file := path.Split(name)
		dir = path.Clean(dir)
		if everyTest.MatchString(dir) {
			return nil
		}
		r, known := rooms[dir]
		if door.MatchString(dir) {
			r, known = stores, true
		}
		if !known && !seen[dir] {
			found = append(found, dir+" has no line in the table")
		}
		seen[dir] = true
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if known && !r.allows(file, imported) {
				found = append(found, name+" imports "+strings.TrimPrefix(imported, module+"/"))
			}
		}
		return nil
	}))
	return found, seen
}

func TestImports(t *testing.T) {
	t.Parallel()
	found, seen := violations(t, os.DirFS(".."))
	for _, violation := range found {
		t.Error(violation)
	}
	require.True(t, seen["coderd"] && seen["coderd/prebuilds"] && seen["cmd/prewarm"], "the repository is not there")
}

// A door that writes is one room's, so that the import says who can write; coderd itself has one, for the start.
func TestDoors(t *testing.T) {
	t.Parallel()
	folders, err := fs.Glob(os.DirFS(".."), "queries/*")
	require.NoError(t, err)
	require.Greater(t, len(folders), 10)
	for _, folder := range folders {
		group := path.Base(folder)
		if group == "database" || group == "views" {
			continue
		}
		var open []string
		for name, r := range rooms {
			if slices.Contains(r.inside, "database/"+group+"db") {
				open = append(open, name)
			}
		}
		assert.Len(t, open, 1, "rooms that may import database/%sdb: %s", group, open)
	}
}

// Each line plants one import that goes the wrong way, or is fine.
func TestImportsAreCaught(t *testing.T) {
	t.Parallel()
	for file, cases := range map[string]map[string]bool{
		"coderd/prebuilds/x.go": {
			"context": false, "net/http": false, "database/sql": false, "os": false, "log/slog": false,
			module + "/database": false, "github.com/coder/quartz": false, "math/rand/v2": false,
			"time": true, "github.com/google/uuid": true, "container/heap": true,
		},
		"coderd/reconcile/x.go": {
			module + "/coderd/lifecycle": false, module + "/coderd/provider": false, module + "/coderd": false,
			module + "/coderd/prebuilds": true, module + "/database": true, "github.com/jackc/pgx/v5": true,
		},
		"coderd/claim/x.go": {
			module + "/coderd/reconcile": false, module + "/coderd/provider": false, module + "/database/workspacesdb": false,
			module + "/database/claimdb": true, module + "/database/viewsdb": true,
		},
		"coderd/lifecycle/x.go": {module + "/coderd/inventory": false, module + "/coderd/provider": true},
		"coderd/provider/sim/x.go": {
			module + "/database": false, module + "/coderd/provider/local": false, module + "/coderd/provider": true,
		},
		"coderd/workspaces/x.go": {
			module + "/coderd/api": false, module + "/database/claimdb": false, module + "/coderd/prebuilds": true,
			module + "/database/workspacesdb": true,
		},
		"coderd/sdk/x.go": {module + "/database": false, "github.com/jackc/pgx/v5": false, "net/http": true},
		"coderd/api/x.go": {
			module + "/coderd": false, module + "/database/dbtest": false, module + "/coderd/claim": true,
			module + "/database/workspacesdb": false, module + "/database/templatesdb": false, module + "/database/apidb": true,
		},
		"coderd/x.go":                {"testing": false, "github.com/stretchr/testify/require": false, module + "/coderd/coderdtest": false, module + "/coderd/api": true, module + "/database/workspacesdb": false},
		"coderd/reconcile/x_test.go": {module + "/coderd/lifecycle": true},
		"cmd/prewarm/claim.go":       {module + "/coderd": false, module + "/database": false, module + "/coderd/sdk": true},
		"cmd/prewarm/server.go":      {module + "/coderd": true},
		"database/dbtest/x.go":       {module + "/database/embedded": true, "testing": true},
		"database/x.go":              {module + "/coderd/prebuilds": false, module + "/database/claimdb": false},
		"database/claimdb/x.go":      {module + "/database": true, module + "/database/workspacesdb": false},
	} {
		for imported, fine := range cases {
			source := "package x\n\nimport _ " + strconv.Quote(imported) + "\n"
			found, _ := violations(t, fstest.MapFS{file: {Data: []byte(source)}})
			want := []string{file + " imports " + strings.TrimPrefix(imported, module+"/")}
			if fine {
				want = nil
			}
			assert.Equal(t, want, found)
		}
	}
	found, _ := violations(t, fstest.MapFS{"coderd/new/x.go": {Data: []byte("package x\n")}})
	assert.Equal(t, []string{"coderd/new has no line in the table"}, found)
}

// What holds of machines that exist beforehand holds of every provider that has them, so that nothing but the wiring names
// the one that is only for them.
func TestImports_noKindIsSpecial(t *testing.T) {
	t.Parallel()
	var found []string
	require.NoError(t, fs.WalkDir(os.DirFS(".."), ".", func(file string, e fs.DirEntry, err error) error {
		isCode := path.Ext(file) == ".go" && !strings.HasSuffix(file, "_test.go") || path.Ext(file) == ".sql"
		if err != nil || e.IsDir() || !isCode || strings.HasPrefix(file, "coderd/provider/hosts/") {
			return err
		}
		source, err := fs.ReadFile(os.DirFS(".."), file)
		if text := string(source); strings.Contains(text, `"hosts"`) || strings.Contains(text, "'hosts'") {
			found = append(found, file)
		}
		return err
	}))
	assert.Equal(t, []string{"coderd/providers.go", "scripts/suitetest/plans.go"}, found)
}
