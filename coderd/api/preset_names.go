package api

import (
	"context"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/auth"
)

// presetNames remembers which preset a name means, so that a claim costs no statement but its own. A live preset is never
// renamed and no other one can have its name, so what is remembered is right until the preset is deleted; and of that a
// claim learns from the claim itself.
type presetNames = remembered[presetName, uuid.UUID]

type presetName struct {
	organization     uuid.UUID
	template, preset string
}

// withPreset runs something on the preset of that name. stale says that the preset turned out to be deleted: if its id
// was only remembered, the name is looked up again.
func withPreset[T any](
	ctx context.Context, s *server, who auth.Identity, template, preset string,
	run func(id uuid.UUID) (result T, stale bool, err error),
) (T, error) {
	name := presetName{who.OrganizationID, template, preset}
	if id, ok := s.presetNames.get(name); ok {
		if result, stale, err := run(id); !stale {
			return result, err
		}
	}
	var zero T
	id, _, err := s.findPreset(ctx, who, template, preset)
	if err != nil {
		return zero, err
	}
	s.presetNames.put(name, id)
	result, _, err := run(id)
	return result, err
}
