package inventory

import "context"

// JudgeEvery is how often Run does what JudgeCalls does.
const JudgeEvery = judgeEvery

func (s *Service) JudgeCalls(ctx context.Context) error { return s.judgeCalls(ctx) }

func (s *Service) LookForDrift(ctx context.Context, name string) error {
	return s.lookForDrift(ctx, name)
}
