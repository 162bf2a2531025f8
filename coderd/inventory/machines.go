package inventory

import (
	"context"
	"errors"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/lease"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/inventorydb"
)

const (
	// machinesEvery is how often a provider's machines are listed, by one replica at a time (S5); machinesLook how often each
	// replica looks whether it is time.
	machinesEvery = time.Minute
	machinesLook  = 5 * time.Second
	// maxText bounds what is kept of what a provider says of a machine, in bytes.
	maxText = 2 << 10
)

// Machines keeps what is known of machines that exist beforehand (S2): passes create as many workspaces as there are unused
// ones (S4), and creates reserve among them.
type Machines struct {
	Store     *database.Store
	Providers *provider.Registry
	Clock     quartz.Clock
	Log       slog.Logger
	Hints     *hints.Hints
}

// Run lists machines when it is time, until ctx ends. Each provider is on its own: one that hangs holds up no other.
func (m *Machines) Run(ctx context.Context) {
	var listings lease.Apart
	defer listings.Wait()
	lease.Loop{
		Clock: m.Clock, Log: m.Log, What: "list machines", Tags: []string{"inventory", "machines"}, Every: machinesLook,
	}.Run(ctx, func(ctx context.Context) error {
		for _, name := range m.Providers.Names() {
			listings.Go(name, func() {
				if _, err := m.List(ctx, name, machinesEvery); err != nil && ctx.Err() == nil {
					m.Log.Warn(ctx, "list machines", slog.F("provider", name), slog.Error(err))
				}
			})
		}
		return nil
	})
}

// List asks the provider for its machines and stores what it says, if the last listing is older than that. False: it is not,
// or this is no provider with machines of its own.
func (m *Machines) List(ctx context.Context, name string, olderThan time.Duration) (bool, error) {
	p, err := m.Providers.Get(name)
	if err != nil {
		return false, nil // whoever has work there says so
	}
	reserver, ok := provider.As[provider.Reserver](p)
	if !ok {
		return false, nil
	}
	begunAt, err := inventorydb.New(m.Store).BeginMachines(ctx, inventorydb.BeginMachinesParams{Name: name, EveryS: olderThan.Seconds()})
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, xerrors.Errorf("begin listing: %w", err)
	}
	listCtx, cancel := context.WithTimeout(ctx, machinesEvery)
	defer cancel()
	machines, err := reserver.ListMachines(listCtx)
	if err != nil {
		return false, err
	}
	return true, m.store(ctx, name, *begunAt, machines)
}

func (m *Machines) store(ctx context.Context, name string, begunAt time.Time, machines []provider.Machine) error {
	found := inventorydb.StoreMachinesParams{Provider: name, BegunAt: begunAt}
	for _, machine := range machines {
		found.Machines = append(found.Machines, machine.ID)
		found.Addresses = append(found.Addresses, machine.Address)
		found.States = append(found.States, string(machine.State))
		found.Errors = append(found.Errors, database.TextAtMost(machine.Error, maxText))
		found.Holders = append(found.Holders, database.TextAtMost(machine.HolderName, maxText))
		found.Seen = append(found.Seen, !machine.SeenAt.IsZero())
	}
	err := m.Store.InTx(ctx, database.TxOptions{Label: "store machines"},
		func(ctx context.Context, tx pgx.Tx) error {
			q := inventorydb.New(tx)
			if _, err := q.StoreMachines(ctx, found); err != nil {
				return xerrors.Errorf("store machines: %w", err)
			}
			if _, err := q.FreeMachinesOfDeleted(ctx, name); err != nil {
				return xerrors.Errorf("free machines of deleted workspaces: %w", err)
			}
			err := q.ForgetMachines(ctx, inventorydb.ForgetMachinesParams{
				Provider: name, BegunAt: begunAt, Machines: found.Machines,
			})
			if err != nil {
				return xerrors.Errorf("forget machines: %w", err)
			}
			return q.EndMachines(ctx, inventorydb.EndMachinesParams{Name: name, BegunAt: begunAt})
		})
	if err != nil {
		return err
	}
	templates, err := inventorydb.New(m.Store).TemplatesOn(ctx, name)
	if err != nil {
		return xerrors.Errorf("read templates: %w", err)
	}
	if len(templates) > 0 {
		m.Hints.Nudge(templates...)
	}
	return nil
}
