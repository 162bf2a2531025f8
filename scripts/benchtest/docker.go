package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// guestPort is where each container takes connections, which is what counts as usable here.
const guestPort = "8080"

// pooled is the configuration of two pools of containers.
const pooled = `
providers:
  - {name: docker, kind: docker, config: {host: %q, network: %q}}
templates:
  - name: guests
    provider: docker
    boot_timeout: 2m
    spec: {image: %q, pull: never, command: [listen, %q], readiness: {tcp: %s}, stop_grace: 1s}
    presets:
      - {name: running, prebuilds: {instances: 4}}
      - {name: stopped, prebuilds: {instances: 4, standby: stopped}}
`

// yard is an engine, with a server whose pools are on it.
type yard struct {
	engine  *dockertest.Engine
	network string
	client  *sdk.Client
	took    map[string][]time.Duration // by what was measured
}

// containers measures from the request of a claim, over HTTP, until the container takes connections: out of each tier of a
// pool that is full and at rest, and beside that of a container of the same image which is created and started then (what
// `docker run` does) by the engine's API. The three take turns.
func containers(ctx context.Context, b *bench) {
	engine, err := dockertest.New()
	if err != nil {
		if b.asked {
			must(err)
		}
		fmt.Fprintln(os.Stderr, "# docker is left out: no container engine can be started here:", err)
		return
	}
	defer engine.Remove()
	must(engine.AddImage(ctx))
	y := &yard{engine: engine, took: map[string][]time.Duration{}}
	for range 20 { // until a subnet is free
		if y.network, _, err = engine.AddNetwork(ctx); err == nil {
			break
		}
	}
	must(err)
	_, r, end := b.running(ctx, 0, 0, "docker")
	defer end()
	y.client = r.client
	get(y.client.Apply(ctx, sdk.ApplyRequest{Document: fmt.Sprintf(pooled, engine.Host, y.network, dockertest.GuestImage,
		guestPort, guestPort)}))
	turns := []func(){func() { y.warm(ctx, "running") }, func() { y.warm(ctx, "stopped") }, func() { y.cold(ctx) }}
	for i := range sized(b, 100, 10) {
		for turn := range turns {
			y.atRest(ctx)
			turns[(i+turn)%len(turns)]()
		}
	}
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", 0.5}, {"p99", 0.99}} {
		ms := func(what string) float64 { return millis(y.took[what], q.at) }
		cold := "docker.cold." + q.name
		line(cold, ms("cold"), "ms", 0, "")
		for _, tier := range []string{"running", "stopped"} {
			line("docker.claim."+tier+".answered."+q.name, ms(tier+" answered"), "ms", ms("cold"), cold)
			line("docker.claim."+tier+".usable."+q.name, ms(tier), "ms", ms("cold"), cold)
		}
	}
}

// atRest waits until both pools are full, and nothing is made, stopped or deleted.
func (y *yard) atRest(ctx context.Context) {
	until(ctx, 3*time.Minute, "pools of containers are at rest", func() bool {
		for _, p := range get(y.client.Presets(ctx)) {
			stopped := 0
			if p.Preset == "stopped" {
				stopped = p.Counts.Desired
			}
			if c := p.Counts; c.Actual != c.Desired || c.Standby != stopped || c.Starting+c.Stopping+c.Deleting+c.Claimed > 0 {
				time.Sleep(20 * time.Millisecond) // the server has better things to do
				return false
			}
		}
		all := get(y.engine.Client.ContainerList(ctx, client.ContainerListOptions{})) // one that stops is in standby before it has
		return len(all.Items) == 4
	})
}

// warm claims one out of a tier, uses it, and gives it back.
func (y *yard) warm(ctx context.Context, tier string) {
	began := time.Now()
	claim := get(y.client.Claim(ctx, sdk.ClaimRequest{Template: "guests", Preset: tier, Mode: "require"}))
	y.took[tier+" answered"] = append(y.took[tier+" answered"], time.Since(began))
	if claim.Outcome != "hit" || claim.Standby != (tier == "stopped") {
		fail("a claim of %s: %s, out of standby: %t, %s", tier, claim.Outcome, claim.Standby, claim.Reason)
	}
	addresses := claim.Addresses
	if claim.Starting {
		until(ctx, time.Minute, "the claimed container starts", func() bool {
			w := get(y.client.Workspace(ctx, claim.Name))
			addresses = w.Addresses
			return !w.Starting
		})
	}
	for _, a := range addresses {
		if a.Type == "ip" {
			y.connects(ctx, a.Address)
			y.took[tier] = append(y.took[tier], time.Since(began))
		}
	}
	get(y.client.ReleaseWorkspace(ctx, claim.Name))
}

// cold is what it takes without a pool.
func (y *yard) cold(ctx context.Context) {
	began := time.Now()
	made := get(y.engine.Client.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config:     &container.Config{Image: dockertest.GuestImage, Cmd: []string{"listen", guestPort}},
		HostConfig: &container.HostConfig{NetworkMode: container.NetworkMode(y.network)},
	}))
	get(y.engine.Client.ContainerStart(ctx, made.ID, client.ContainerStartOptions{}))
	is := get(y.engine.Client.ContainerInspect(ctx, made.ID, client.ContainerInspectOptions{}))
	var ip netip.Addr
	if at := is.Container.NetworkSettings.Networks[y.network]; at != nil {
		ip = at.IPAddress
	}
	y.connects(ctx, ip.String())
	y.took["cold"] = append(y.took["cold"], time.Since(began))
	get(y.engine.Client.ContainerRemove(ctx, made.ID, client.ContainerRemoveOptions{Force: true}))
}

// connects returns as soon as the container takes connections.
func (y *yard) connects(ctx context.Context, ip string) {
	dialer := net.Dialer{Timeout: time.Second}
	until(ctx, time.Minute, "container at "+ip+" takes connections", func() bool {
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(ip, guestPort))
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}
