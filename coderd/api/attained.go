package api

import (
	"context"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/explain"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// attained compares the hits of the last day and week with the target of a preset whose sizes autosize sets; nil for others.
func attained(ctx context.Context, q *viewsdb.Queries, preset uuid.UUID, provision time.Duration) ([]sdk.Attained, error) {
	rows, err := q.AttainedHits(ctx, viewsdb.AttainedHitsParams{PresetID: preset, ProvisionS: provision.Seconds()})
	if err != nil {
		return nil, xerrors.Errorf("read attained hits: %w", err)
	}
	var out []sdk.Attained
	for _, r := range rows {
		a := explain.Attained{
			Target: r.Target, Claims: int(r.Claims), Hits: int(r.Hits), Maximum: int(r.Maximum), AtMaximum: int(r.AtMaximum),
			InBursts: int(r.InBursts), Bursts: int(r.Bursts), Unready: int(r.Unready),
		}
		out = append(out, sdk.Attained{
			Days: int(r.Days), Target: a.Target, Claims: a.Claims, Hits: a.Hits, AtMaximum: a.AtMaximum, InBursts: a.InBursts,
			Bursts: a.Bursts, Unready: a.Unready, Why: a.Why(),
		})
	}
	return out, nil
}
