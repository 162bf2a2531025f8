package api

import (
	"context"
	"net/http"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

func (s *server) registerReplicas() {
	answer(s, operation{
		id: "list-replicas", method: http.MethodGet, path: "/replicas", action: auth.ActReadReplicas, tag: "server",
		summary: "List the server processes",
	}, s.listReplicas)
	answer(s, operation{
		id: "get-last-pass", method: http.MethodGet, path: "/passes/last", action: auth.ActReadReplicas, tag: "server",
		summary: "Say which replica did the last pass, and how long ago",
	}, s.lastPass)
}

func (s *server) lastPass(ctx context.Context, _ auth.Identity, _ *none) (sdk.LastPass, error) {
	row, err := viewsdb.New(s.Store).LastPass(ctx)
	if err != nil {
		return sdk.LastPass{}, xerrors.Errorf("read last pass: %w", err)
	}
	p := sdk.LastPass{
		Replica: row.Holder, Sequence: row.Seq, BeganAt: row.BeganAt, FullBeganAt: row.FullBeganAt,
		LimitMS: s.StaleAfter.Milliseconds(), Stale: true,
	}
	if row.FullBeganAt != nil {
		staleness := max(0, row.Now.Sub(*row.FullBeganAt))
		p.StalenessMS, p.Stale = staleness.Milliseconds(), staleness > s.StaleAfter
	}
	return p, nil
}

func (s *server) listReplicas(ctx context.Context, _ auth.Identity, _ *none) ([]sdk.Replica, error) {
	rows, err := viewsdb.New(s.Store).Replicas(ctx)
	if err != nil {
		return nil, xerrors.Errorf("list replicas: %w", err)
	}
	work, err := viewsdb.New(s.Store).ReplicaWork(ctx)
	if err != nil {
		return nil, xerrors.Errorf("count work of replicas: %w", err)
	}
	replicas := make([]sdk.Replica, len(rows))
	for i, r := range rows {
		replicas[i] = sdk.Replica{
			Name: r.Name, Version: r.Version, Address: r.Address, Sites: r.Sites, StartedAt: r.StartedAt,
			HeartbeatAt: r.HeartbeatAt, State: r.State, LastPass: r.LastPass,
			Work: map[string]int{},
		}
		for _, n := range work {
			if n.Replica == r.Name {
				replicas[i].Work[string(n.Kind)] = int(n.Jobs)
			}
		}
	}
	return replicas, nil
}
