// Package gitea is Gitea as a forge, by its REST API and webhooks. The scope `enterprise` is the whole instance there.
//
// What is worth knowing of it:
//   - Times that are not set come as the year 1970, and the runner of a job is left out until it has one.
//   - Up to 1.26 a job keeps its id and its time of creation when it is run again, and its attempts are counted when a runner
//     takes it: 0 before the first one does. From 1.27 on each attempt is a job of its own, with the number of its run's
//     attempt. A job looks the same in both. The webhooks of the latter have more in their `repository`
//     (`mirror_last_sync_at`); of an answer of the API the version has to be asked for.
//   - What waits for other jobs or an approval is `waiting` up to 1.26, then also `pending`.
//   - There is no just-in-time configuration but a registration token, good for any number of runners until somebody resets it.
//   - Deleting a runner is never refused, busy or not.
//   - The secret of a webhook can't be changed by the API, which says nothing of it.
//   - It keeps no deliveries that can be asked for.
package gitea
