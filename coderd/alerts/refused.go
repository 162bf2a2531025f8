package alerts

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/explain"
	"github.com/prewarm-dev/prewarm/database/alertsdb"
)

// refusedFresh is how long a judgement of what is claimed is good for.
const refusedFresh = 10 * time.Minute

// Refuses says why a provider would refuse a spec now; nil where it would not. judged is false where this replica cannot
// say: it does not reach that provider's site, or the provider is not configured any more.
type Refuses func(provider, site string, spec json.RawMessage, parameters map[string]string) (judged bool, why error)

// Refused are the claimed workspaces of a preset at one place that their provider would refuse to make or to start now,
// such as containers of an older version that may write a directory of the machine. They keep running (I2).
type Refused struct {
	PresetID       uuid.UUID
	OrganizationID uuid.UUID
	Organization   string
	Template       string
	Preset         string
	Provider       string
	Site           string
	Claimed        int    // how many of them
	Why            string // of one of them
	Unjudged       bool   // another replica has to say
}

// judgeClaimed looks at what is claimed, by spec and parameters and not by workspace.
func (r *Reader) judgeClaimed(ctx context.Context) error {
	rows, err := alertsdb.New(r.store).ClaimedSpecs(ctx)
	if err != nil {
		return xerrors.Errorf("read specs of claimed workspaces: %w", err)
	}
	var all []Refused
	for _, row := range rows {
		var parameters map[string]string
		if err := json.Unmarshal(row.Parameters, &parameters); err != nil {
			return xerrors.Errorf("decode parameters of preset %s/%s: %w", row.Template, row.Preset, err)
		}
		judged, why := r.refuses(row.Provider, row.Site, row.Spec, parameters)
		if why == nil && judged {
			continue
		}
		found := Refused{
			PresetID: row.PresetID, OrganizationID: row.OrganizationID, Organization: row.Organization,
			Template: row.Template, Preset: row.Preset, Provider: row.Provider, Site: row.Site,
			Claimed: int(row.Claimed), Unjudged: !judged,
		}
		if why != nil {
			found.Why = why.Error()
		}
		if last := len(all) - 1; last >= 0 && all[last].subject() == found.subject() {
			all[last].Claimed += found.Claimed // of another version
			continue
		}
		all = append(all, found)
	}
	r.refused, r.judged = all, true
	return nil
}

// subject is what an episode is about.
func (r *Refused) subject() string { return r.PresetID.String() + " " + r.Provider + " " + r.Site }

func (r *Refused) episode() Episode {
	return Episode{
		Subject: r.subject(), OrganizationID: r.OrganizationID, Template: r.Template, Preset: r.Preset,
		Detail: explain.Refused(r.Claimed, r.Provider, r.Why),
	}
}
