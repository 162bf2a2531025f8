package templates

import (
	"context"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Archives are the directories that people have uploaded, for specs that name one.
type Archives interface {
	// UseArchive says whether the organization has the archive of that digest, and keeps it for longer than an apply may take.
	UseArchive(ctx context.Context, organizationID uuid.UUID, digest string) (bool, error)
}

// archive is one that a spec names.
type archive struct {
	digest string
	at     Pos
}

// archive notes the one that a template's spec names at its provider.
func (c *checker) archive(t Template, p provider.Provider) {
	taker, ok := provider.As[provider.ArchiveTaker](p)
	if !ok {
		return
	}
	if digest := taker.ArchiveOf(t.Spec); digest != "" {
		at, found := t.spec.find("module")
		if !found {
			at = t.specAt
		}
		c.archives = append(c.archives, archive{digest, at})
	}
}

// checkArchives notes those that the organization does not have. Nobody applies what others have uploaded by its digest alone.
func (s *Service) checkArchives(ctx context.Context, organizationID uuid.UUID, named []archive, problems *Problems) error {
	for _, a := range named {
		has, err := s.Archives.UseArchive(ctx, organizationID, a.digest)
		if err != nil {
			return err
		}
		if !has {
			problems.add(a.at, "spec.module: %s is not stored: name the directory in its place, and apply the file with prewarm apply, "+
				"which uploads it", a.digest)
		}
	}
	return nil
}
