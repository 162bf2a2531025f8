package instance

import (
	"context"
	"time"
)

// WatchOnce looks for silent agents as a replica would that has watched for so long.
func (s *Service) WatchOnce(ctx context.Context, watched time.Duration) error {
	return s.watchOnce(ctx, watched)
}
