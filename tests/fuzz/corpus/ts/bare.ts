@data
1:x
2,3:y
