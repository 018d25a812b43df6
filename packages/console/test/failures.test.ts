import { TERMINAL_STATUSES } from "@backplane/contract";
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createElement, type FunctionComponent } from "react";
import { renderToString } from "react-dom/server";
import { expect, test } from "vitest";
import { FAILURE_STATUSES } from "../src/api/invocations.ts";
import { type Services, ServicesContext } from "../src/api/services.ts";
import { HealthPage } from "../src/pages/health/health-page.tsx";
import { HomePage } from "../src/pages/home/home-page.tsx";
import { PackageFailures } from "../src/pages/plugins/package-failures.tsx";
import { ToastProvider } from "../src/parts/actions/toast.tsx";

/** The statuses by which a page filters its calls. Rendering to a string starts no request. */
function listedStatuses<P extends object>(page: FunctionComponent<P>, props: P): unknown[] {
  const queries = new QueryClient();
  const services = { queries, client: {}, live: {} } as Services;
  renderToString(
    createElement(
      QueryClientProvider,
      { client: queries },
      createElement(
        ServicesContext.Provider,
        { value: services },
        createElement(MantineProvider, null, createElement(ToastProvider, null, createElement(page, props))),
      ),
    ),
  );
  return queries
    .getQueryCache()
    .getAll()
    .filter(({ queryKey }) => queryKey[0] === "invocations")
    .flatMap(({ queryKey }) => (queryKey[2] as { status?: unknown }).status ?? []);
}

test("lists every call that did not succeed and was not cancelled as a failure", () => {
  expect([...FAILURE_STATUSES, "cancelled", "succeeded"].sort()).toEqual([...TERMINAL_STATUSES].sort());
  const bindings = [{ binding_id: "bind_1", export_id: "echo" }] as never;
  expect(listedStatuses(PackageFailures, { bindings })).toEqual(FAILURE_STATUSES);
  expect(listedStatuses(HomePage, {})).toEqual(FAILURE_STATUSES);
  expect(listedStatuses(HealthPage, {})).toEqual(FAILURE_STATUSES);
});
