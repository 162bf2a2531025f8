package events

import (
	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// topics says who may hear of what: whoever may read it.
var topics = map[string]auth.Action{
	sdk.TopicWorkspace:  auth.ActReadWorkspace,
	sdk.TopicClaim:      auth.ActReadWorkspace,
	sdk.TopicPreset:     auth.ActReadPresets,
	sdk.TopicTemplate:   auth.ActReadTemplates,
	sdk.TopicVersion:    auth.ActReadTemplates,
	sdk.TopicProvider:   auth.ActReadProviders,
	sdk.TopicReplica:    auth.ActReadReplicas,
	sdk.TopicPause:      auth.ActReadPauses,
	sdk.TopicToken:      auth.ActReadTokens,
	sdk.TopicSigningKey: auth.ActReadSigningKeys,
	sdk.TopicAudit:      auth.ActReadAudit,
	sdk.TopicForge:      auth.ActReadForges,
	sdk.TopicForgeJob:   auth.ActReadForges,
	sdk.TopicRunner:     auth.ActReadForges,
}

// change is a hint and whom it is for.
type change struct {
	hint         sdk.Hint
	organization uuid.UUID // uuid.Nil: of the installation, for everybody's
	owner        uuid.UUID // whose it is, or who did it; uuid.Nil: nobody's in particular
}

// concerns says whether who may hear of the change.
func (c change) concerns(who auth.Identity) bool {
	if c.organization != uuid.Nil && c.organization != who.OrganizationID {
		return false
	}
	action, known := topics[c.hint.Topic]
	return known && who.May(action, c.owner)
}
