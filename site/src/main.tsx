import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "./app.css";
import { makeRouter } from "./router";
import { Problem } from "./services/api";
import { connection } from "./services/connection";
import { invalidate } from "./services/invalidate";
import { makeQueryClient, read, refresh } from "./services/query";
import { stream } from "./services/stream";

const client = makeQueryClient();
const router = makeRouter(client);

/** leave goes to sign-in, and back to this page afterwards. Who was never known here has no session that could be over. */
function leave(): void {
  stream.stop();
  const { pathname, href } = router.state.location;
  if (pathname === "/sign-in") return;
  const known = client.getQueryData(read("whoami").queryKey) !== undefined;
  void router.navigate({ to: "/sign-in", search: { to: href, ended: known || undefined }, replace: true });
}

client.getQueryCache().config.onError = (error) => {
  if (error instanceof Problem && error.status === 401) leave();
};
stream.onUnauthorized = leave;
stream.listen((news) => invalidate(client, news));
let wasUp = false;
stream.watch(() => {
  // While the stream is up, what is shown is current; when it ends, the server may be gone.
  if (wasUp || stream.up()) connection.heard();
  if (wasUp && !stream.up()) connection.doubt();
  wasUp = stream.up();
});
connection.onBack = () => {
  stream.retry();
  void refresh(client);
};
addEventListener("online", () => void connection.try());
addEventListener("offline", () => connection.doubt());

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
);
