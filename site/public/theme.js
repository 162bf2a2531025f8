// Runs before anything is painted, so that a chosen theme does not flash. Without a choice the system's holds.
try {
  const chosen = localStorage.getItem("prewarm.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // No storage, no choice.
}
