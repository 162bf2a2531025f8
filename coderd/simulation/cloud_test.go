//go:build !race

package simulation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
)

// cloud is what a process has for a provider: the one cloud of the world, behind the gate.
type cloud struct {
	p    *process
	real *sim.Provider
}

var (
	_ provider.Provider  = cloud{}
	_ provider.AgentHost = cloud{}
)

var errCloud = errors.New("simulated failure of the provider")

// ask stands at the gate and then does the call once, twice, or not at all. What hangs answers when its caller has had
// enough.
func ask[T any](ctx context.Context, c cloud, name, subject string, do func(ctx context.Context) (T, error), lie func(T, fate) (T, error)) (T, error) {
	var none T
	r := c.p.submit(&call{ctx: ctx, name: name, subject: subject, mark: markProvider, act: func(f fate) (any, error) {
		calm := context.WithoutCancel(ctx)
		switch f {
		case fateErrorBefore:
			return none, errCloud
		case fateErrorAfter:
			_, _ = do(calm)
			return none, errCloud
		case fatePermanent:
			return none, provider.Permanent(errCloud)
		case fateTwice:
			_, _ = do(calm)
			return do(calm)
		case fateLie:
			v, err := do(calm)
			if err != nil {
				return v, err
			}
			return lie(v, f)
		default:
			return do(calm)
		}
	}})
	if r.err != nil {
		return none, r.err
	}
	return r.value.(T), nil
}

func (cloud) HostsAgent() {}

func (c cloud) Validate(spec json.RawMessage, parameters map[string]string) []provider.Problem {
	return c.real.Validate(spec, parameters)
}

func (c cloud) Create(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	return ask(ctx, c, "create", req.Name, func(ctx context.Context) (provider.Instance, error) {
		inst, err := c.real.Create(ctx, req)
		if err == nil {
			c.p.w.made(req, inst)
		}
		return inst, err
	}, broken)
}

// broken is the lie that what was made is not well.
func broken(i provider.Instance, _ fate) (provider.Instance, error) {
	i.Status, i.Fault = provider.StatusError, "simulated error status"
	return i, nil
}

func (c cloud) Get(ctx context.Context, ref provider.Ref) (provider.Instance, error) {
	return ask(ctx, c, "get", ref.Name, func(ctx context.Context) (provider.Instance, error) { return c.real.Get(ctx, ref) },
		func(i provider.Instance, _ fate) (provider.Instance, error) {
			return provider.Instance{}, provider.ErrNotFound
		})
}

func (c cloud) List(ctx context.Context, installation uuid.UUID) ([]provider.Instance, error) {
	return ask(ctx, c, "list", "", func(ctx context.Context) ([]provider.Instance, error) {
		list, err := c.real.List(ctx, installation)
		slices.SortFunc(list, func(a, b provider.Instance) int { return cmp.Compare(a.Name, b.Name) })
		list = c.p.w.twisted(list)
		if err == nil && c.p.w.forgets() {
			return c.p.w.forgetful(list)
		}
		return list, err
	}, func(list []provider.Instance, _ fate) ([]provider.Instance, error) { return c.p.w.forgetful(list) })
}

func (c cloud) Ready(ctx context.Context, ref provider.Ref) (provider.Readiness, error) {
	return ask(ctx, c, "ready", ref.Name, func(ctx context.Context) (provider.Readiness, error) { return c.real.Ready(ctx, ref) },
		func(provider.Readiness, fate) (provider.Readiness, error) {
			return provider.Readiness{Failed: true, Detail: "simulated failure of its setup"}, nil
		})
}

func (c cloud) Delete(ctx context.Context, ref provider.Ref) error {
	_, err := ask(ctx, c, "delete", ref.Name, func(ctx context.Context) (struct{}, error) {
		c.p.w.deletes(c.p, ref)
		return struct{}{}, c.real.Delete(ctx, ref)
	}, func(struct{}, fate) (struct{}, error) { return struct{}{}, errCloud })
	return err
}
