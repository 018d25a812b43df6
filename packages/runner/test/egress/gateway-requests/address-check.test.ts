import type { BackplaneError } from "@backplane/contract";
import { expect, test } from "vitest";
import { publicOnly } from "../../../src/egress/destinations/address.ts";
import { type AddressCheck, createAddressCheck } from "../../../src/egress/gateway-requests/address-check.ts";

const rules = { forbidden: publicOnly, resolve: async () => ["10.0.0.1"] };
const name = { host: "home.test", port: 80 };
const literal = { host: "10.0.0.1", port: 80 };

const refusalsOf = async (check: AddressCheck) => [
  await check.resolveAddresses(name, []).then(
    () => expect.unreachable("the name should have been refused"),
    (error) => error as BackplaneError,
  ),
  check.refuseLiteral(literal, []),
];

test("states the fix of a refused name and of a refused address once, outside the message", async () => {
  const fix = (destination: string) => `Allow ${destination}.`;
  expect(await refusalsOf(createAddressCheck({ ...rules, fix }))).toMatchObject([
    {
      code: "policy.denied",
      message:
        "The gateway does not connect to home.test:80. The name resolves to an address that is not public (10.0.0.1 (private)).",
      fix: "Allow home.test:80.",
    },
    {
      code: "policy.denied",
      message:
        "The gateway does not connect to 10.0.0.1:80. Only host names can be reached, not IP addresses in any notation.",
      fix: "Allow 10.0.0.1:80.",
    },
  ]);
});

test("suggests the settings of a provider by default", async () => {
  for (const refusal of await refusalsOf(createAddressCheck(rules))) {
    expect(refusal?.fix).toContain("backplane provider set ID --allow-private");
    expect(refusal?.message).not.toContain("--allow-private");
  }
});
