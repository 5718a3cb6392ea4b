% Has the conversation with a service and prints what it hears.

1; % a script, not a function
arguments = argv();
addpath(arguments{1});
client = aline(arguments{2}, 'token', arguments{3}, 'timeout', 60);
steps = jsondecode(fileread(arguments{4}), 'makeValidName', false); % "do" is a word of Octave's
kept.client = client;
heard = {};
for i = 1:numel(steps)
  if iscell(steps), step = steps{i}; else, step = steps(i); end
  method = step.('do');
  given = step.with;
  if ~iscell(given), given = num2cell(given); end
  for j = 1:numel(given)
    if ischar(given{j}) && strncmp(given{j}, '$', 1), given{j} = kept.(given{j}(2:end)); end
  end
  on = kept.(step.on);
  try
    if any(strcmp(method, {'change', 'close'}))
      on.(method)(given{:});
      found = [];
    else
      found = on.(method)(given{:});
    end
    if isfield(step, 'as') && ~isempty(step.as), kept.(step.as) = found; end
    if isstruct(found) && isfield(found, 'ask'), found = found.name; end
    if isstruct(found) && any(strcmp(method, {'models', 'experiments', 'attach'})), found = num2cell(found); end % a list, even of one
  catch failure
    if ~strncmp(failure.identifier, 'aline:', 6), rethrow(failure); end
    found = struct('status', sscanf(failure.identifier, 'aline:http%d'), 'detail', failure.message);
  end
  heard{end + 1} = found;
end
printf('%s', jsonencode(heard));
