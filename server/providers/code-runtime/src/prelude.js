// Makes the world of a program: `console`, the bound functions and their classes of errors. Evaluated before each
// program; gets the only two ways out of the engine as arguments, so that the program never sees them.
// Gives back what ends a run: `toJson` for the value it returned, `describe` for what it threw.
(call, print, spec) => {
  "use strict";
  const { stringify, parse } = JSON;
  const { defineProperty, freeze, create, getPrototypeOf, keys, is } = Object;
  const { isArray } = Array;
  const { ownKeys } = Reflect;
  const objectPrototype = Object.prototype;
  const wellFormed = (text) => text.toWellFormed();

  const classOf = (value) => {
    const prototype = getPrototypeOf(value);
    const name = prototype === null ? "" : prototype.constructor?.name;
    return typeof name === "string" && name !== "" ? name : "object";
  };

  // --- lossless JSON -----------------------------------------------------------------------------------------------
  const toJson = (root, place) => {
    const open = new Set();
    const refuse = (path, what) => {
      throw new TypeError(`${path} is ${what}, which is no JSON`);
    };
    const write = (value, path) => {
      switch (typeof value) {
        case "string":
          return value.isWellFormed() ? stringify(value) : refuse(path, "a string with half a character");
        case "boolean":
          return value ? "true" : "false";
        case "number":
          return Number.isFinite(value) && !is(value, -0) ? stringify(value) : refuse(path, is(value, -0) ? "-0" : `${value}`);
        case "object":
          return value === null ? "null" : writeObject(value, path);
        default:
          return refuse(path, value === undefined ? "undefined" : `a ${typeof value}`);
      }
    };
    const writeObject = (value, path) => {
      if (open.has(value)) refuse(path, "a reference to something it is in");
      open.add(value);
      const parts = [];
      if (isArray(value)) {
        for (let idx = 0; idx < value.length; idx++) {
          parts.push(write(value[idx], `${path}[${idx}]`));
        }
      } else {
        const prototype = getPrototypeOf(value);
        if (prototype !== null && prototype !== objectPrototype) refuse(path, `an instance of ${classOf(value)}`);
        for (const key of ownKeys(value)) {
          if (typeof key === "symbol") refuse(path, "an object with a symbol for a key");
          // A member that is undefined is one that is absent.
          const member = value[key];
          if (member !== undefined) parts.push(`${write(key, path)}:${write(member, `${path}.${key}`)}`);
        }
      }
      open.delete(value);
      return isArray(value) ? `[${parts.join(",")}]` : `{${parts.join(",")}}`;
    };
    return write(root, place);
  };

  // --- console -----------------------------------------------------------------------------------------------------
  const MAX_DEPTH = 4;
  const MAX_ITEMS = 100;
  const MAX_TEXT = 10000;
  const MAX_LINE = 76;

  const inspect = (root) => {
    const open = new Set();
    const list = (left, parts, right) => {
      if (parts.length === 0) return left + right;
      const line = `${left} ${parts.join(", ")} ${right}`;
      if (line.length <= MAX_LINE && !line.includes("\n")) return line;
      return `${left}\n  ${parts.map((part) => part.replaceAll("\n", "\n  ")).join(",\n  ")}\n${right}`;
    };
    const items = (values, depth) => {
      const parts = [];
      let count = 0;
      for (const value of values) {
        if (count++ < MAX_ITEMS) parts.push(show(value, depth));
      }
      if (count > MAX_ITEMS) parts.push(`… ${count - MAX_ITEMS} more`);
      return parts;
    };
    const members = (value, depth) =>
      keys(value).map((key) => `${/^[A-Za-z_$][\w$]*$/.test(key) ? key : stringify(key)}: ${show(value[key], depth)}`);
    const show = (value, depth) => {
      switch (typeof value) {
        case "string":
          return value.length <= MAX_TEXT
            ? stringify(value)
            : `${stringify(value.slice(0, MAX_TEXT))}… ${value.length - MAX_TEXT} more characters`;
        case "bigint":
          return `${value}n`;
        case "number":
          return is(value, -0) ? "-0" : `${value}`;
        case "function":
          return `[Function: ${value.name || "anonymous"}]`;
        case "object":
          return value === null ? "null" : showObject(value, depth);
        default:
          return String(value);
      }
    };
    const showObject = (value, depth) => {
      if (open.has(value)) return "[Circular]";
      if (value instanceof Error) return describe(value).text;
      if (value instanceof Date) return isNaN(value) ? "Invalid Date" : value.toISOString();
      if (value instanceof RegExp) return String(value);
      if (value instanceof Promise) return "Promise {}";
      const name = classOf(value);
      if (depth > MAX_DEPTH) return isArray(value) ? "[Array]" : `[${name === "object" ? "Object" : name}]`;
      open.add(value);
      let text;
      if (isArray(value)) text = list("[", items(value, depth + 1), "]");
      else if (value instanceof Map) {
        const entries = [...value].map(([key, entry]) => `${show(key, depth + 1)} => ${show(entry, depth + 1)}`);
        text = list(`Map(${value.size}) {`, entries, "}");
      } else if (value instanceof Set) text = list(`Set(${value.size}) {`, items(value, depth + 1), "}");
      else if (ArrayBuffer.isView(value) && !(value instanceof DataView)) {
        text = list(`${name}(${value.length}) [`, items(value, depth + 1), "]");
      } else {
        const plain = name === "Object" || getPrototypeOf(value) === null;
        text = list(plain ? "{" : `${name} {`, members(value, depth + 1), "}");
      }
      open.delete(value);
      return text;
    };
    try {
      return show(root, 0);
    } catch (error) {
      return `[unreadable: ${error?.message}]`;
    }
  };

  // What was thrown: a text, and where, one frame a line.
  const describe = (thrown) => {
    if (!(thrown instanceof Error)) return { text: typeof thrown === "string" ? thrown : inspect(thrown), stack: "" };
    const name = String(thrown.name || "Error");
    const message = String(thrown.message);
    return { text: message === "" ? name : `${name}: ${message}`, stack: String(thrown.stack ?? "") };
  };

  const define = (name, value) => defineProperty(globalThis, name, { value, writable: false, configurable: false });

  const printed = (...values) => {
    print(wellFormed(values.map((value) => (typeof value === "string" ? value : inspect(value))).join(" ")));
  };
  const consoleObject = {};
  for (const level of ["log", "info", "warn", "error", "debug"]) {
    defineProperty(consoleObject, level, { value: (...values) => printed(...values), enumerable: true });
  }
  define("console", freeze(consoleObject));

  // --- bindings ----------------------------------------------------------------------------------------------------
  parse(spec).forEach(({ global, functions, errorClass, member }, binding) => {
    const Rejection = {
      [errorClass]: class extends Error {
        constructor(message, functionName) {
          super(message);
          defineProperty(this, "name", { value: errorClass, enumerable: false });
          defineProperty(this, member, { value: functionName, enumerable: true });
        }
      },
    }[errorClass];
    define(errorClass, Rejection);
    const target = create(null);
    for (const name of functions) {
      const bound = (...values) => {
        // Made now, so that its stack shows where the program called.
        const rejection = new Rejection("", name);
        const reject = (message) => {
          defineProperty(rejection, "message", { value: message, enumerable: false });
          return Promise.reject(rejection);
        };
        let argument;
        try {
          if (values.length > 1) throw new TypeError("a tool takes one object of arguments");
          argument = values.length === 0 ? "{}" : toJson(values[0], "the argument");
        } catch (error) {
          return reject(error instanceof Error ? error.message : String(error));
        }
        return call(binding, name, argument).then((answer) =>
          answer[0] === "v" ? parse(answer.slice(1)) : reject(answer.slice(1)),
        );
      };
      defineProperty(bound, "name", { value: name });
      defineProperty(target, name, { value: freeze(bound), enumerable: true });
    }
    define(global, freeze(target));
  });

  return {
    toJson: (value) => (value === undefined ? undefined : toJson(value, "the value")),
    describe: (thrown) => {
      try {
        const { text, stack } = describe(thrown);
        return [wellFormed(text), wellFormed(stack)];
      } catch {
        return ["something that cannot be read was thrown", ""];
      }
    },
  };
};
