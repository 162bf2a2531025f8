package api

import (
	"context"
	"net/http"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (s *server) registerReplicas() {
	register(s, operation{
		id: "list-replicas", method: http.MethodGet, path: "/replicas", action: auth.ActReadReplicas, tag: "server",
		summary: "List the server processes",
	}, s.listReplicas)
}

func (s *server) listReplicas(ctx context.Context, _ auth.Identity, _ *none) (*body[[]sdk.Replica], error) {
	rows, err := s.Store.Replicas(ctx)
	if err != nil {
		return nil, xerrors.Errorf("list replicas: %w", err)
	}
	replicas := make([]sdk.Replica, len(rows))
	for i, r := range rows {
		replicas[i] = sdk.Replica{
			Name: r.Name, Version: r.Version, Address: r.Address, Sites: r.Sites, StartedAt: r.StartedAt,
			HeartbeatAt: r.HeartbeatAt, State: r.State, LastPass: r.LastPass,
		}
	}
	return bodyOf(replicas), nil
}
