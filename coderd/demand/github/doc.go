// Package github is GitHub as a forge: github.com, GitHub Enterprise Cloud and GitHub Enterprise Server, spoken to with a token
// or as an App.
//
// What is worth knowing of it:
//   - A webhook is sent once. GitHub never tries again by itself; a person's or an App's redelivery keeps the delivery's id.
//   - `completed` can come before `in_progress`, and a job that nobody took completes without a runner.
//   - `started_at` is set from the first event on, so it is believed only where a runner is named.
//   - A job goes to any idle runner that fits, whomever that was made for.
//   - Deleting a runner that has a job is refused with 422: that is the veto of P7.
package github
