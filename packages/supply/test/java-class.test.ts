import { expect, test } from "vitest";
import { hasMain } from "../src/import/formats/java-class.ts";
import { classFile, MAIN_CLASS } from "./class-file.ts";

test("a class starts by itself when it has a public static main of an array of texts", () => {
  expect(hasMain(MAIN_CLASS)).toBe(true);
  expect(hasMain(classFile("main", "()V"))).toBe(false);
  expect(hasMain(classFile("other", "([Ljava/lang/String;)V"))).toBe(false);
  expect(hasMain(classFile("main", "([Ljava/lang/String;)V", 0x0001))).toBe(false);
});

test("what is no class file, or ends early, is none", () => {
  expect(hasMain(Buffer.from("cafe"))).toBe(null);
  expect(hasMain(Buffer.from("PK\u0003\u0004 and more of it"))).toBe(null);
  for (const length of [4, 9, 12, 30, MAIN_CLASS.length - 12])
    expect(hasMain(MAIN_CLASS.subarray(0, length))).toBe(null);
});
