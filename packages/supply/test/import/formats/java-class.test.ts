import { expect, test } from "vitest";
import { hasMain } from "../../../src/import/formats/java-class.ts";
import { classFile, MAIN_CLASS } from "./class-file.ts";

test("finds a public static main method with an array of strings", () => {
  expect(hasMain(MAIN_CLASS)).toBe(true);
  expect(hasMain(classFile("main", "()V"))).toBe(false);
  expect(hasMain(classFile("other", "([Ljava/lang/String;)V"))).toBe(false);
  expect(hasMain(classFile("main", "([Ljava/lang/String;)V", 0x0001))).toBe(false);
});

test("returns null for other files and truncated class files", () => {
  expect(hasMain(Buffer.from("cafe"))).toBe(null);
  expect(hasMain(Buffer.from("PK\u0003\u0004 and more of it"))).toBe(null);
  for (const length of [4, 9, 12, 30, MAIN_CLASS.length - 12])
    expect(hasMain(MAIN_CLASS.subarray(0, length))).toBe(null);
});
