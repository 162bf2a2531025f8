package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// atOnce is how many claims come at the same moment, of a pool that has so many ready.
const atOnce = 100

// pooledBoxes is how many containers are ready.
const pooledBoxes = 8

const shells = `
templates:
  - name: shells
    provider: local
    agent: {}
    spec: {command: [sleep, infinity]}
    presets:
      - {name: default, prebuilds: {instances: %d}}
`

const boxes = `
providers:
  - {name: docker, kind: docker, config: {host: %q, network: %q, callback_host: %q}}
templates:
  - name: boxes
    provider: docker
    boot_timeout: 2m
    agent: {}
    spec: {image: %q, pull: never, stop_grace: 1s}
    presets:
      - {name: default, prebuilds: {instances: %d}}
`

// guest is somebody who claims workspaces and runs a command in each, over HTTP as with curl.
type guest struct {
	server  *replica
	token   string
	command sdk.ProcessStart
	says    string // what the command writes
	of      string // template
}

// interactive measures time to interactive on a pool that is full: from the request of a claim to the first output of a command,
// both through HTTP, one at a time and many at once. In containers it is beside a container of the same image that is created
// then, and beside a command by the engine's own API in one that runs. The three take turns.
func interactive(ctx context.Context, b *bench) {
	b.interactiveLocal(ctx)
	b.interactiveDocker(ctx)
}

func (b *bench) interactiveLocal(ctx context.Context) {
	f, r, end := b.running(ctx, 0, 0, "interactive")
	defer end()
	many := sized(b, atOnce, 10)
	g := guest{server: r, token: f.token.Reveal(), command: sdk.ProcessStart{Shell: "echo ready"}, says: "ready", of: "shells"}
	defer g.leave(ctx)
	get(r.client.Apply(ctx, sdk.ApplyRequest{Document: fmt.Sprintf(shells, many)}))
	var took, command []time.Duration
	for range sized(b, 200, 10) {
		g.full(ctx, many, 0)
		began := time.Now()
		name := g.claim(ctx)
		g.run(ctx, name)
		took = append(took, time.Since(began))
		began = time.Now()
		g.run(ctx, name)
		command = append(command, time.Since(began))
		get(r.client.ReleaseWorkspace(ctx, name))
	}
	quantiles("interactive.local", took)
	quantiles("interactive.local.command", command)

	name := g.together(ctx, many, "interactive.local")
	g.full(ctx, many, many) // those that take the places of the claimed ones have come: they are no part of what follows
	b.port(ctx, g, name)
	b.upload(ctx, g, name)
}

// together measures many at the same moment. It returns the name of one.
func (g guest) together(ctx context.Context, many int, what string) string {
	g.full(ctx, many, 0)
	took := make([]time.Duration, many)
	names := make([]string, many)
	errs := make([]error, many)
	var all sync.WaitGroup
	began := time.Now()
	for i := range took {
		all.Go(func() {
			errs[i] = attempt(func() {
				names[i] = g.claim(ctx)
				g.run(ctx, names[i])
				took[i] = time.Since(began)
			})
		})
	}
	all.Wait()
	must(errors.Join(errs...))
	quantiles(fmt.Sprintf("%s.%d-at-once", what, many), took)
	return names[0]
}

// port measures a request to a program in a workspace, beside the same request to it directly.
func (b *bench) port(ctx context.Context, g guest, name string) {
	listener := get(net.Listen("tcp", "127.0.0.1:0"))
	program := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }),
		ReadHeaderTimeout: time.Minute,
	}
	go func() { _ = program.Serve(listener) }()
	defer program.Close()
	address := listener.Addr().String()
	_, port, _ := strings.Cut(address, ":") // a local workspace shares the machine's network
	through := fmt.Sprintf("%s/api/v1/workspaces/%s/ports/%s/http/", g.server.address, name, port)
	took := map[string][]time.Duration{}
	for range sized(b, 1000, 50) {
		for _, url := range []string{through, "http://" + address + "/"} {
			began := time.Now()
			if said := string(get(io.ReadAll(g.ask(ctx, http.MethodGet, url, nil)))); said != "hello" {
				fail("the program answered %q", said)
			}
			took[url] = append(took[url], time.Since(began))
		}
	}
	direct := millis(took["http://"+address+"/"], 0.5)
	line("interactive.port.direct.p50", direct, "ms", 0, "")
	line("interactive.port.p50", millis(took[through], 0.5), "ms", direct, "interactive.port.direct.p50")
	line("interactive.port.over-direct.p50", millis(took[through], 0.5)-direct, "ms", 0, "")
}

func (b *bench) interactiveDocker(ctx context.Context) {
	engine, err := dockertest.New()
	if err != nil {
		if b.asked {
			must(err)
		}
		fmt.Fprintln(os.Stderr, "# containers are left out: no container engine can be started here:", err)
		return
	}
	defer engine.Remove()
	must(engine.AddImage(ctx))
	network, gateway, err := engine.AddNetwork(ctx)
	must(err)
	f := b.fleet(ctx, 0, 0)
	defer f.drop()
	r := b.serve(ctx, f, "interactive-docker", 15*time.Second, "--listen", gateway.String()+":0")
	defer r.stop()
	pool := func(n int) {
		get(r.client.Apply(ctx, sdk.ApplyRequest{
			Document: fmt.Sprintf(boxes, engine.Host, network, r.host(), dockertest.GuestImage, n),
		}))
	}
	say := []string{"/bin/guest", "say", "ready"}
	g := guest{server: r, token: f.token.Reveal(), command: sdk.ProcessStart{Command: say}, says: "ready", of: "boxes"}
	defer g.leave(ctx)
	pool(pooledBoxes)
	g.full(ctx, pooledBoxes, 0)

	host := containerHost{engine.Client, network}
	held := host.start(ctx, host.create(ctx, "serve"))
	defer host.remove(context.WithoutCancel(ctx), held)
	took := map[string][]time.Duration{}
	timed := func(what string, do func()) {
		began := time.Now()
		do()
		took[what] = append(took[what], time.Since(began))
	}
	turns := []func(){
		func() {
			var name string
			timed("claim", func() { name = g.claim(ctx); g.run(ctx, name) })
			timed("command", func() { g.run(ctx, name) })
			get(r.client.ReleaseWorkspace(ctx, name))
		},
		func() { timed("exec", func() { host.exec(ctx, held, say) }) },
		func() {
			var id string
			timed("run", func() { id = host.run(ctx, say[1:]) })
			host.remove(ctx, id)
		},
	}
	for i := range sized(b, 100, 5) {
		for turn := range turns {
			g.full(ctx, pooledBoxes, 0)
			turns[(i+turn)%len(turns)]()
		}
	}
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", 0.5}, {"p99", 0.99}} {
		ms := func(what string) float64 { return millis(took[what], q.at) }
		cold, exec := "interactive.docker-run."+q.name, "interactive.docker-exec."+q.name
		line(cold, ms("run"), "ms", 0, "")
		line(exec, ms("exec"), "ms", 0, "")
		line("interactive.docker."+q.name, ms("claim"), "ms", ms("run"), cold)
		line("interactive.docker.command."+q.name, ms("command"), "ms", ms("exec"), exec)
	}
	many := sized(b, atOnce, 10)
	pool(many)
	g.together(ctx, many, "interactive.docker")
}

// full waits until so many are ready, and nothing is being made or deleted.
func (g guest) full(ctx context.Context, n, claimed int) {
	until(ctx, 3*time.Minute, "the pool of "+g.of+" is full", func() bool {
		for _, p := range get(g.server.client.Presets(ctx)) {
			if c := p.Counts; p.Template == g.of && c.Actual == n && c.Claimed == claimed && c.Starting+c.Deleting == 0 {
				return true
			}
		}
		time.Sleep(20 * time.Millisecond) // the server has better things to do
		return false
	})
}

// leave gives back what is claimed, and waits until nothing is left of the template: workspaces outlive their server. A failure
// of it is printed, for it may follow another one.
func (g guest) leave(ctx context.Context) {
	err := attempt(func() {
		must(g.server.client.DeleteTemplate(ctx, g.of))
		until(ctx, 3*time.Minute, "the workspaces of "+g.of+" are gone", func() bool {
			left := get(g.server.client.Workspaces(ctx, sdk.WorkspaceFilter{})).Workspaces
			for _, w := range left {
				if w.State == "claimed" {
					get(g.server.client.ReleaseWorkspace(ctx, w.Name))
				}
			}
			return len(left) == 0
		})
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "# workspaces of %s may be left on this machine: %v\n", g.of, err)
	}
}

// ask is a request that has to succeed.
func (g guest) ask(ctx context.Context, method, url string, body any) io.ReadCloser {
	var content io.Reader = http.NoBody
	if body != nil {
		content = bytes.NewReader(get(json.Marshal(body)))
	}
	req := get(http.NewRequestWithContext(ctx, method, url, content))
	req.Header.Set("Authorization", "Bearer "+g.token)
	req.Header.Set("Content-Type", "application/json")
	res := get(http.DefaultClient.Do(req))
	if res.StatusCode/100 != 2 {
		said, _ := io.ReadAll(res.Body)
		fail("%s %s: %s: %s", method, url, res.Status, said)
	}
	return res.Body
}

// claim returns the name of a workspace.
func (g guest) claim(ctx context.Context) string {
	answer := g.ask(ctx, http.MethodPost, g.server.address+"/api/v1/claims", sdk.ClaimRequest{Template: g.of, Preset: "default", Mode: "require"})
	defer answer.Close()
	var claim sdk.Claim
	must(json.NewDecoder(answer).Decode(&claim))
	if claim.Outcome != "hit" {
		fail("a claim was a %s: %s", claim.Outcome, claim.Reason)
	}
	return claim.Name
}

// run returns with the first output of the command. What follows is read by nobody's clock.
func (g guest) run(ctx context.Context, name string) {
	answer := g.ask(ctx, http.MethodPost, g.server.address+"/api/v1/workspaces/"+name+"/run", g.command)
	lines := json.NewDecoder(answer)
	for {
		var line sdk.ProcessOutput
		must(lines.Decode(&line))
		if line.Stream != "" {
			if !strings.Contains(line.Text, g.says) {
				fail("the command wrote %q", line.Text)
			}
			go func() { _, _ = io.Copy(io.Discard, answer); _ = answer.Close() }()
			return
		}
		if line.ExitCode != nil {
			fail("the command ended with %d, and wrote nothing", *line.ExitCode)
		}
	}
}

// containerHost is the engine's own API, without Prewarm.
type containerHost struct {
	*client.Client
	network string
}

func (h containerHost) create(ctx context.Context, command ...string) string {
	return get(h.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config:     &container.Config{Image: dockertest.GuestImage, Cmd: command},
		HostConfig: &container.HostConfig{NetworkMode: container.NetworkMode(h.network)},
	})).ID
}

func (h containerHost) start(ctx context.Context, id string) string {
	get(h.ContainerStart(ctx, id, client.ContainerStartOptions{}))
	return id
}

// run is `docker run`: it returns with the first output.
func (h containerHost) run(ctx context.Context, command []string) string {
	id := h.create(ctx, command...)
	attached := get(h.ContainerAttach(ctx, id, client.ContainerAttachOptions{Stream: true, Stdout: true, Stderr: true}))
	defer attached.Close()
	h.start(ctx, id)
	get(attached.Reader.ReadByte())
	return id
}

// exec is `docker exec`: it returns with the first output.
func (h containerHost) exec(ctx context.Context, id string, command []string) {
	made := get(h.ExecCreate(ctx, id, client.ExecCreateOptions{AttachStdout: true, AttachStderr: true, Cmd: command}))
	attached := get(h.ExecAttach(ctx, made.ID, client.ExecAttachOptions{}))
	defer attached.Close()
	get(attached.Reader.ReadByte())
}

func (h containerHost) remove(ctx context.Context, id string) {
	get(h.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true}))
}
