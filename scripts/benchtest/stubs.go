package main

import "context"

func openLoop(ctx context.Context, b *bench) error       { return nil }
func openSnapshot(ctx context.Context, b *bench) error   { return nil }
func idlePasses(ctx context.Context, b *bench) error     { return nil }
func creatingPasses(ctx context.Context, b *bench) error { return nil }
func refill(ctx context.Context, b *bench) error         { return nil }
func mixed(ctx context.Context, b *bench) error          { return nil }
func failover(ctx context.Context, b *bench) error       { return nil }
func memory(ctx context.Context, b *bench) error         { return nil }
