import { InfiniteQueryObserver, QueryClient } from "@tanstack/react-query";
import { afterEach, expect, test } from "vitest";
import { further } from "./pages";
import { refresh } from "./query";

/** asked are the pages that were asked for and not answered yet: the number of each, and what answers it. */
let asked: { page: number; answer: (what: string) => void }[] = [];

const client = new QueryClient();
const list = new InfiniteQueryObserver(client, {
  queryKey: ["list-forge-jobs", {}, "pages"],
  initialPageParam: 1,
  queryFn: ({ pageParam }) =>
    new Promise<{ page: number; what: string }>((resolve) => {
      asked.push({ page: pageParam, answer: (what) => resolve({ page: pageParam, what }) });
    }),
  getNextPageParam: (last) => (last.page < 3 ? last.page + 1 : undefined),
});

afterEach(() => {
  asked = [];
  client.clear();
});

/** next waits until a page is asked for, and takes it. */
async function next() {
  await expect.poll(() => asked.length).toBe(1);
  return asked.pop()!;
}

/** first reads the first page, and watches the list. */
async function first() {
  const stop = list.subscribe(() => undefined);
  (await next()).answer("old");
  await expect.poll(() => shown()).toEqual(["1 old"]);
  return stop;
}

const shown = () => list.getCurrentResult().data?.pages.map((p) => `${p.page} ${p.what}`);

test("news that come while a next page is fetched do not lose it, and all is read again after it", async () => {
  const stop = await first();
  void further(list.getCurrentResult());
  const second = await next();
  const read = refresh(client);
  second.answer("old");
  const again = await next();
  expect(shown()).toEqual(["1 old", "2 old"]);
  expect(again.page).toBe(1);
  again.answer("new");
  (await next()).answer("new");
  await read;
  expect(shown()).toEqual(["1 new", "2 new"]);
  stop();
});

test("news read at once what is not being paged, also where it is read already", async () => {
  const stop = await first();
  void refresh(client);
  await next(); // it began before the news that follow, and may not have seen them
  const read = refresh(client);
  (await next()).answer("new");
  await read;
  expect(shown()).toEqual(["1 new"]);
  stop();
});

test("a page that is asked for while the list is read again interrupts that, and it is made up for", async () => {
  const stop = await first();
  void refresh(client);
  await next();
  const gone = further(list.getCurrentResult());
  (await next()).answer("new");
  const again = await next();
  expect(again.page).toBe(1);
  again.answer("new");
  (await next()).answer("new");
  await gone;
  expect(shown()).toEqual(["1 new", "2 new"]);
  stop();
});
