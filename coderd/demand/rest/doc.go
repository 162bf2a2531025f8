// Package rest is what GitHub and Gitea have in common: Gitea's API of runners, jobs and webhooks is made after GitHub's, and
// says much the same in the same words. Packages github and gitea are it with what each has of its own.
//
//	connect.go   one entity's client: its credential, limits on requests, pages of listings
//	errors.go    answers as the errors of package forge, and what was heard of limits
//	runners.go   listings, and finding one
//	jobs.go      jobs of webhooks and of listings
//	hooks.go     webhooks: headers of deliveries, installing, showing, removing
package rest
