package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/prewarm-dev/prewarm/coderd/seal"
	"github.com/prewarm-dev/prewarm/coderd/states"
)

// terraform measures what it is to claims that workspaces are made by Terraform: those of a pool whose workspaces have a state each
// and a pool of `sim` take turns, and then claims take turns with claims while large states are written.
func terraform(ctx context.Context, b *bench) {
	const clients = 8
	simple := &setting{image: b.stocked(ctx, 1, 0)}
	defer simple.image.drop()
	f := b.fleetOn(ctx, "terraform", 1, 0)
	f.add(ctx, b.stock())
	f.addStates(ctx)
	made := &setting{name: ".terraform", image: b.image(ctx, f)}
	defer made.image.drop()
	for _, s := range []*setting{simple, made} {
		s.samples = map[side][]sample{}
	}
	for range b.rounds {
		for _, side := range sides {
			simple.measure(ctx, b, side, clients)
			made.measure(ctx, b, side, clients)
		}
	}
	for _, side := range sides {
		name, of := fmt.Sprintf("terraform.claims.%s.%d", side, clients), fmt.Sprintf("sim.%s.%d", side, clients)
		compare(name, made.samples[side], simple.samples[side], of)
	}
	b.largeStates(ctx, made.image)
}

// stock is how many workspaces are enough for one window of claims.
func (b *bench) stock() int { return int(20_000 * (warmUp + b.window()).Seconds()) }

// compare prints claims beside others.
func compare(name string, got, beside []sample, yardstick string) {
	line(name, middle(got, perSecond), "/s", middle(beside, perSecond), yardstick)
	line(name+".p50", middle(got, p50), "ms", middle(beside, p50), yardstick)
	line(name+".p99", middle(got, p99), "ms", middle(beside, p99), yardstick)
}

// addStates gives each workspace a run and a state, as its create leaves them.
func (f *fleet) addStates(ctx context.Context) {
	get(f.store.Pool.Exec(ctx, `INSERT INTO terraform_runs (workspace_id, incarnation, job_id, attempt, token_hash, created_at, name)
		SELECT id, 1, gen_random_uuid(), 1, sha256(uuid_send(id)), ready_at, name FROM workspaces`))
	get(f.store.Pool.Exec(ctx, `INSERT INTO terraform_states
			(workspace_id, version, incarnation, lineage, serial, sealed, sealed_by, size, md5, created_at)
		SELECT id, 1, 1, id::text, 1, convert_to(repeat(md5(id::text), 40), 'UTF8'), 'bench', 1280, uuid_send(id), ready_at FROM workspaces`))
}

// largeStates measures claims at half of what is possible, while 20 processes of Terraform store a state of 20 MiB each, and without.
func (b *bench) largeStates(ctx context.Context, from *image) {
	const clients, rate, writers = 8, 500, 20
	size := sized(b, 20<<20, 2<<20)
	var without, with []sample
	var took, written []float64
	for range b.rounds {
		d := from.open(ctx)
		within("terraform.without", func() { without = append(without, d.measure(ctx, b, overHTTP, clients, rate)) })
		service := &states.Service{Store: d.store, Keys: seal.Open(filepath.Join(b.scratch, "keys"), true, quartz.NewReal())}
		write := writeStates(ctx, service, writers, size)
		log, began, claimed := b.wal(ctx), time.Now(), 0
		beside := d.while(ctx, b, clients, rate, func() {
			write()
			took = append(took, time.Since(began).Seconds())
		})
		for _, s := range beside {
			claimed += s.n
		}
		with = append(with, beside...)
		written = append(written, (float64(b.wal(ctx)-log)-middle(without, logged)*float64(claimed))/(1<<20))
		d.close()
	}
	name := fmt.Sprintf("terraform.%d-states-of-%d-MiB", writers, size>>20)
	line(name+".written", median(took), "s", 0, "")
	line(name+".log", median(written), "MiB", float64(writers*size)/(1<<20), "their-size")
	compare(name+".claims", with, without, "without-them")
}

// writeStates makes runs of so many workspaces, and states of that size, which the function then stores all at once.
func writeStates(ctx context.Context, s *states.Service, n, size int) func() {
	value := bytes.Repeat([]byte("x"), 1000)
	var writes []func() error
	for range n {
		id := uuid.New()
		c := get(s.BeginAlone(ctx, id, id.String(), 1))
		run := get(s.Authenticate(ctx, id.String(), c.Token))
		must(s.Lock(ctx, run, json.RawMessage(`{"ID":"bench"}`)))
		state := largeState(id, value, size)
		writes = append(writes, func() error { return s.Write(ctx, run, "bench", state) })
	}
	return func() {
		var all errgroup.Group
		for _, write := range writes {
			all.Go(write)
		}
		must(all.Wait())
	}
}

// largeState is one of many resources.
func largeState(id uuid.UUID, value []byte, size int) []byte {
	var state bytes.Buffer
	fmt.Fprintf(&state, `{"version":4,"terraform_version":"1.11.4","serial":1,"lineage":%q,"outputs":{},"resources":[`, id)
	for i := 0; state.Len() < size; i++ {
		if i > 0 {
			state.WriteByte(',')
		}
		fmt.Fprintf(&state, `{"mode":"managed","type":"terraform_data","name":"n%d","provider":"provider[\"terraform.io/builtin/terraform\"]",`+
			`"instances":[{"schema_version":0,"attributes":{"id":"%d","input":%q}}]}`, i, i, value)
	}
	state.WriteString("]}")
	return state.Bytes()
}
