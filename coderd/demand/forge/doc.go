// Package forge is what Prewarm needs of a forge: GitHub (cloud and Enterprise Server) and Gitea are behind it, in folders
// beside this one, and coderd/demand/forgetest is a forge to test against.
//
// Nothing here touches the database. Every call that asks a forge may take long and fail, so none is made within a
// transaction (I8), and each returns one of the errors below where its caller has to tell them apart.
package forge
