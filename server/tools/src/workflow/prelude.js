// Makes the world of a workflow: `agent`, `pipeline`, `parallel`, `phase`, `log`, `args`. Evaluated before the script, with
// its settings as JSON; its value turns what the script returned into plain JSON.
//
// Only the host starts agents and counts them. Here is what needs functions of the script: the combinators, and which errors
// end the script through them. An error is fatal because this file made it, whatever it looks like.
(settings) => {
  "use strict";
  const { args, maxItems } = JSON.parse(settings);
  const { defineProperty, getPrototypeOf, freeze, create } = Object;
  const { isArray } = Array;
  const { ownKeys } = Reflect;
  const objectPrototype = Object.prototype;
  const isEnumerable = objectPrototype.propertyIsEnumerable;
  const host = workflowHost;
  const fatals = new WeakSet();

  const isFatal = (error) => typeof error === "object" && error !== null && fatals.has(error);
  const fatal = (code, message) => {
    const error = new WorkflowError(`${code}: ${message}`);
    fatals.add(error);
    return error;
  };

  // What the host refuses is fatal too; what never reached it has no code yet.
  const ask = (hook, argument) =>
    host[hook](argument).catch((error) => {
      if (!/^[A-Z_]+: /.test(error.message)) {
        defineProperty(error, "message", { value: `INVALID_ARGUMENT: ${error.message}` });
      }
      fatals.add(error);
      throw error;
    });
  const tell = (hook, text, rule) => {
    if (typeof text !== "string" || (hook === "phase" && text.trim() === "")) throw fatal("INVALID_ARGUMENT", rule);
    ask(hook, { text: text.toWellFormed() }).catch(() => {});
  };

  const agent = async (prompt, options = {}) => {
    if (typeof prompt !== "string" || prompt.trim() === "") {
      throw fatal("INVALID_ARGUMENT", "agent(prompt, options) needs a prompt that is not blank");
    }
    if (typeof options !== "object" || options === null || isArray(options)) {
      throw fatal("INVALID_ARGUMENT", "the options of agent(prompt, options) must be an object");
    }
    return ask("agent", { prompt: prompt.toWellFormed(), options });
  };

  const count = (call, list) => {
    if (list.length > maxItems) throw fatal("ITEM_CAP", `${call} takes at most ${maxItems} entries, not ${list.length}`);
  };

  const pipeline = async (items, ...stages) => {
    if (!isArray(items)) throw fatal("INVALID_ARGUMENT", "pipeline(items, ...stages) needs an array first");
    if (stages.length === 0 || stages.some((stage) => typeof stage !== "function")) {
      throw fatal("INVALID_ARGUMENT", "pipeline(items, ...stages) needs one or more functions after the array");
    }
    count("pipeline", items);
    const through = async (item, index) => {
      let value = item;
      for (const stage of stages) {
        try {
          value = await stage(value, item, index);
        } catch (error) {
          if (isFatal(error)) throw error;
          return null;
        }
      }
      return value;
    };
    return Promise.all(Array.from(items, through));
  };

  const parallel = async (thunks) => {
    if (!isArray(thunks) || Array.from(thunks).some((thunk) => typeof thunk !== "function")) {
      throw fatal("INVALID_ARGUMENT", "parallel(thunks) needs an array of functions; write () => agent(…)");
    }
    count("parallel", thunks);
    const settled = async (thunk) => {
      try {
        return await thunk();
      } catch (error) {
        if (isFatal(error)) throw error;
        return null;
      }
    };
    return Promise.all(Array.from(thunks, (thunk) => settled(thunk)));
  };

  const globals = {
    agent,
    pipeline,
    parallel,
    phase: (title) => tell("phase", title, "phase(title) needs a text that is not blank"),
    log: (message) => tell("log", message, "log(message) needs a text"),
  };
  for (const name of Object.keys(globals)) defineProperty(globalThis, name, { value: freeze(globals[name]) });
  defineProperty(globalThis, "args", { value: args });

  return (returned) => {
    const open = new Set();
    const refuse = (path, what) => {
      throw fatal("RESULT_UNSERIALIZABLE", `${path} is ${what}, which is no JSON`);
    };
    const copy = (value, path) => {
      switch (typeof value) {
        case "string":
          return value.toWellFormed();
        case "boolean":
          return value;
        case "number":
          if (!Number.isFinite(value)) refuse(path, `${value}`);
          return value === 0 ? 0 : value;
        case "object":
          return value === null ? null : copyObject(value, path);
        default:
          return refuse(path, value === undefined ? "undefined" : `a ${typeof value}`);
      }
    };
    const copyObject = (value, path) => {
      if (open.has(value)) refuse(path, "a reference to something it is in");
      open.add(value);
      const keys = ownKeys(value);
      if (keys.some((key) => typeof key === "symbol")) refuse(path, "an object with a symbol for a key");
      let copied;
      if (isArray(value)) {
        // One key an entry, and `length`.
        if (keys.length !== value.length + 1) refuse(path, "an array with gaps or named entries");
        copied = Array.from(value, (entry, idx) => copy(entry, `${path}[${idx}]`));
      } else {
        const prototype = getPrototypeOf(value);
        if (prototype !== null && prototype !== objectPrototype) {
          refuse(path, `an instance of ${prototype.constructor?.name ?? "a class"}`);
        }
        copied = create(null);
        for (const key of keys) {
          if (isEnumerable.call(value, key)) copied[key] = copy(value[key], `${path}.${key}`);
        }
      }
      open.delete(value);
      return copied;
    };
    return returned === undefined ? null : copy(returned, "the result");
  };
}
