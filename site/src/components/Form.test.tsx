import { cleanup, render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, test, vi } from "vitest";
import { Problem } from "../services/api";
import { faultOf, Field, fileIn, Form, written } from "./Form";

afterEach(cleanup);

const fields = ["name", "url", "token", "path", "credential"];

test("an error is of the field that it begins with or whose place it has", () => {
  expect(faultOf(new Error("url: it must begin with https://"), fields)).toEqual({ field: "url", text: "it must begin with https://" });
  expect(faultOf(new Error('path "a/b": with the scope organization it is like acme'), fields).field).toBe("path");
  expect(faultOf(new Error("a token is missing, or app_id"), fields).field).toBe("token");
  expect(faultOf(new Error('there is no credential "x"'), fields).field).toBe("credential");
  expect(faultOf(new Problem(422, "validation failed", [{ location: "body.url", message: "expected length <= 64" }]), fields)).toEqual({
    field: "url",
    text: "at most 64 characters",
  });
  expect(faultOf(new Error("The server does not answer."), fields)).toEqual({ text: "The server does not answer." });
});

test("what is wrong stands at its field, which has the focus, and what was written is kept", async () => {
  const user = userEvent.setup();
  const send = vi.fn().mockRejectedValueOnce(new Error("url: it must begin with https://")).mockRejectedValueOnce(new Error("no more"));
  render(
    <Form act="Send" fields={fields} onCancel={() => undefined} onSubmit={send}>
      {(wrong) => (
        <>
          <Field name="name" label="Name">{(c) => <input {...c} />}</Field>
          <Field name="url" label="URL" hint="of the API" error={wrong("url")}>{(c) => <input {...c} />}</Field>
        </>
      )}
    </Form>,
  );
  await user.type(screen.getByLabelText("URL"), "http://forge");
  await user.click(screen.getByRole("button", { name: "Send" }));
  const url = screen.getByLabelText<HTMLInputElement>("URL");
  expect((await screen.findByRole("alert")).textContent).toBe("it must begin with https://");
  expect(document.activeElement).toBe(url);
  expect(url.value).toBe("http://forge");
  expect(url.getAttribute("aria-invalid")).toBe("true");
  expect(url.getAttribute("aria-describedby")?.split(" ").map((id) => document.getElementById(id)?.textContent)).toEqual([
    "of the API",
    "it must begin with https://",
  ]);
  await user.click(screen.getByRole("button", { name: "Send" }));
  expect((await screen.findByText("no more")).getAttribute("role")).toBe("alert");
  expect(url.getAttribute("aria-invalid")).toBeNull();
});

test("what is empty was not written", async () => {
  const data = new FormData();
  data.set("name", "  acme ");
  data.set("url", " ");
  data.set("key", new File(["-----BEGIN"], "key.pem"));
  data.set("none", new File([], ""));
  expect([written(data, "name"), written(data, "url"), written(data, "other")]).toEqual(["acme", undefined, undefined]);
  expect([await fileIn(data, "key"), await fileIn(data, "none")]).toEqual(["-----BEGIN", undefined]);
});
