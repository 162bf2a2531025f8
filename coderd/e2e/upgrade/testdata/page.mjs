// Signs in at PAGE with TOKEN in Chromium, and visits PATHS: pages that must show TEXTS. It prints what was wrong, and
// fails then. The first argument is the package.json whose playwright-core is used.
import { createRequire } from "node:module";

const { chromium } = createRequire(process.argv[2])("playwright-core");
const { PAGE, TOKEN, PATHS, PREWARM_CHROMIUM } = process.env;
const browser = await chromium.launch({
  executablePath: PREWARM_CHROMIUM,
  args: ["--no-sandbox", "--disable-quic", "--disable-background-networking", "--disable-dev-shm-usage", "--no-first-run"],
});
const problems = [];
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(30_000);
  let at = "/sign-in";
  page.on("pageerror", (error) => problems.push(`${at}: ${error.message}`));
  page.on("response", (answer) => {
    const path = new URL(answer.url()).pathname;
    // Without a session it is told so, and a provider may have no output.
    if (answer.status() >= 400 && ![401, 501].includes(answer.status())) problems.push(`${at}: ${path} is ${answer.status()}`);
  });
  await page.goto(`${PAGE}/sign-in`);
  await page.getByLabel("Token").fill(TOKEN);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { level: 1, name: "Pools" }).waitFor();
  for (const [path, texts] of Object.entries(JSON.parse(PATHS))) {
    at = path;
    await page.goto(PAGE + path);
    for (const text of texts) {
      await page
        .getByText(text)
        .filter({ visible: true })
        .first()
        .waitFor()
        .catch(() => problems.push(`${at}: "${text}" is not shown`));
    }
    const shown = await page.getByRole("main").innerText();
    for (const wrong of ["undefined", "NaN", "Invalid Date", "Something went wrong"]) {
      if (shown.includes(wrong)) problems.push(`${at}: shows "${wrong}"`);
    }
  }
} catch (error) {
  problems.push(String(error));
} finally {
  await browser.close();
}
for (const problem of problems) console.log(problem);
process.exitCode = problems.length > 0 ? 1 : 0;
